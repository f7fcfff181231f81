// The environments of all projects, and the one whose telemetry is shown first.
import { listLogs, listProjects, listServices, readOverview } from '../../../generated/client/sdk.gen';
import type { Project } from '../../../generated/client/types.gen';
import { call, callPage } from '../../api/call';
import { lastEnvironment, rememberEnvironment } from '../../state/last_environment';

/** How many environments are asked for telemetry: each takes two queries of the column store. */
const ASKED = 6;
const SINCE = '7d';

export interface NamedEnvironment {
  id: string;
  /** Project and environment. */
  label: string;
  project: string;
}

/** The environment that was opened without a choice and without telemetry in any environment. */
let guessed: string | undefined;

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

/**
 * Return the environment to open: the one that was looked at last, else one with telemetry of the last week, else the
 * first. Undefined if there is none.
 */
export async function chooseEnvironment(environments: readonly NamedEnvironment[], signal: AbortSignal): Promise<string | undefined> {
  const last = lastEnvironment();
  if (environments.length < 2 || environments.some((each) => each.id === last)) {
    return environments.find((each) => each.id === last)?.id ?? environments[0]?.id;
  }
  const overview = await call(readOverview({ signal })).catch(() => undefined);
  const busy = new Map((overview?.projects ?? []).map((each) => [each.project.id, (each.requests ?? 0) + (each.exceptions ?? 0)]));
  const first = environments.toSorted((a, b) => (busy.get(b.project) ?? 0) - (busy.get(a.project) ?? 0)).slice(0, ASKED);
  const answers = await Promise.allSettled(first.map((each) => hasTelemetry(each.id, signal)));
  const found = first.find((_, i) => answers[i]?.status === 'fulfilled' && answers[i].value);
  if (!found) guessed = environments[0]?.id;
  return (found ?? environments[0])?.id;
}

/** Remember the environment that somebody looks at, unless it was opened only because no environment has telemetry. */
export function noteShown(environment: string): void {
  if (environment === guessed) return;
  guessed = undefined;
  rememberEnvironment(environment);
}

async function hasTelemetry(environment: string, signal: AbortSignal): Promise<boolean> {
  const path = { environment };
  const query = { since: SINCE, limit: 1 };
  const found = await Promise.all([callPage(listServices({ path, query, signal })), callPage(listLogs({ path, query, signal }))]);
  return found.some(({ data }) => data.length > 0);
}
