import { listHeartbeats, listQueues, listServices, listSites } from '../../generated/client/sdk.gen';
import { call, callPage } from '../api/call';
import { canReadIn } from '../state/project_role.svelte';

interface Place {
  id: string;
  /** Such as `Shop · Production`. */
  label: string;
}

export interface Target {
  label: string;
  hint: string;
  href: string;
  /** The environment that the target is. */
  environment?: Place;
}

/** How many environments are asked for their services: each takes a query of the column store. */
const ASKED = 8;

const MOST = 30;

/** Return the targets whose label has every word of the text, those that begin with it first. */
export function findTargets(targets: Target[], text: string): Target[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const begin = text.trim().toLowerCase();
  return targets
    .filter((target) => words.every((word) => `${target.label} ${target.hint}`.toLowerCase().includes(word)))
    .sort((a, b) => Number(b.label.toLowerCase().startsWith(begin)) - Number(a.label.toLowerCase().startsWith(begin)))
    .slice(0, MOST);
}

/** Return what is watched: heartbeats, queues, sites, and the services of the first environments. Failures leave a kind out. */
export async function findWatched(environments: Place[]): Promise<Target[]> {
  const groups = await Promise.allSettled([
    callPage(listHeartbeats({ query: { limit: 100 } })).then(({ data }) => data.map((each) => ({ label: each.name, hint: 'Heartbeat', href: `/jobs/heartbeats/${each.id}` }))),
    callPage(listQueues({ query: { limit: 100 } })).then(({ data }) => data.map((each) => ({ label: each.name, hint: 'Queue', href: `/jobs/queues/${each.id}` }))),
    call(listSites()).then((sites) => sites.filter((each) => canReadIn(each.project.id)).map((each) => ({ label: each.name, hint: 'Site', href: `/analytics/${each.id}` }))),
    ...environments.slice(0, ASKED).map(findServices),
  ]);
  return groups.flatMap((group) => (group.status === 'fulfilled' ? group.value : []));
}

async function findServices(environment: Place): Promise<Target[]> {
  const { data } = await callPage(listServices({ path: { environment: environment.id }, query: { since: '1d', limit: 50 } }));
  return data.flatMap(({ service }) =>
    service ? [{ label: service, hint: `Service of ${environment.label}`, href: `/monitoring/${environment.id}/services/${encodeURIComponent(service)}` }] : [],
  );
}
