// The environments of all projects, and the one that was looked at last in this browser.
import { listProjects } from '../../../generated/client/sdk.gen';
import type { Project } from '../../../generated/client/types.gen';
import { callPage } from '../../api/call';

const LAST = 'pharos-environment';

export interface NamedEnvironment {
  id: string;
  /** Project and environment. */
  label: string;
  project: string;
}

const rank = (type: string) => (type === 'production' ? 0 : type === 'preview' ? 2 : 1);

/** Return the environments: production first, previews last. Throws `ApiProblem`. */
export async function loadEnvironments(signal: AbortSignal): Promise<NamedEnvironment[]> {
  const projects: Project[] = [];
  let cursor: string | undefined;
  do {
    const page = await callPage(listProjects({ query: { limit: 100, cursor }, signal }));
    projects.push(...page.data);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined && projects.length < 1000);
  const all = projects.flatMap((project) => project.environments.map((environment) => ({ project, environment })));
  return all
    .sort((a, b) => rank(a.environment.type) - rank(b.environment.type))
    .map(({ project, environment }) => ({
      id: environment.id,
      label: `${project.name} / ${environment.name}`,
      project: project.id,
    }));
}

export function rememberEnvironment(id: string): void {
  localStorage.setItem(LAST, id);
}

export function lastEnvironment(): string | null {
  return localStorage.getItem(LAST);
}
