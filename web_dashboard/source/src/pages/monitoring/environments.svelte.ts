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

/** Return the environments, previews last. Throws `ApiProblem`. */
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
    .sort((a, b) => Number(a.environment.type === 'preview') - Number(b.environment.type === 'preview'))
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
