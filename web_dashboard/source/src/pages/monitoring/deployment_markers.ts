// Deployments of the environment as markers on charts.
import { listDeploymentsOfEnvironment } from '../../../generated/client/sdk.gen';
import { callPage } from '../../api/call';
import type { ChartMarker } from '../../charts/TimeChart.svelte';

/** Return a marker for each deployment that ended since `begin` (milliseconds since 1970), up to 100. */
export async function loadMarkers(environment: string, begin: number, signal: AbortSignal): Promise<ChartMarker[]> {
  const page = await callPage(listDeploymentsOfEnvironment({ path: { environment }, query: { limit: 100 }, signal }));
  return page.data
    .filter((each) => each.finished_at !== null && Date.parse(each.finished_at) >= begin)
    .map((each) => ({
      time: Date.parse(each.finished_at ?? '') / 1000,
      label: each.status === 'succeeded' ? `Deployment ${each.id}` : `Deployment ${each.id}: ${each.status}`,
      href: `/deployments/${each.id}`,
      tone: each.status === 'succeeded' ? 'accent' : 'bad',
    }));
}
