// The deployments of a site's project, as markers of its chart.
import { listDeploymentsOfProject } from '../../../generated/client/sdk.gen';
import { callPage } from '../../api/call';
import type { ChartMarker } from '../../charts/TimeChart.svelte';

const MOST = 100;

/** Return the newest deployments that went live. None without the right to read them. */
export async function deploymentMarkers(project: string, signal: AbortSignal): Promise<ChartMarker[]> {
  try {
    const found = await callPage(listDeploymentsOfProject({ path: { project }, query: { status: 'succeeded', limit: MOST }, signal }));
    return found.data.flatMap((each) =>
      each.finished_at === null
        ? []
        : [{ time: new Date(each.finished_at).getTime() / 1000, label: `Deployment ${each.id}${each.revision ? ` of ${each.revision.slice(0, 7)}` : ''}`, href: `/deployments/${each.id}`, tone: 'accent' as const }],
    );
  } catch {
    return [];
  }
}
