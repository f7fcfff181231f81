// Deployments as markers on charts: those of Pharos, and those that were reported to it.
import { listDeploymentMarkers, listDeploymentMarkersOfProject } from '../../generated/client/sdk.gen';
import type { DeploymentMarker } from '../../generated/client/types.gen';
import { call } from '../api/call';
import type { ChartMarker } from './TimeChart.svelte';

/** Return the markers of an environment since `begin`, in milliseconds since 1970. */
export async function markersOfEnvironment(environment: string, begin: number, signal: AbortSignal): Promise<ChartMarker[]> {
  const query = { from: new Date(begin).toISOString() };
  return (await call(listDeploymentMarkers({ path: { environment }, query, signal }))).map((each) => describeMarker(each));
}

/** Return the markers of all environments of a project since `begin`. None without the right to read deployments. */
export async function markersOfProject(project: string, begin: number, signal: AbortSignal): Promise<ChartMarker[]> {
  const query = { from: new Date(begin).toISOString() };
  try {
    const found = await call(listDeploymentMarkersOfProject({ path: { project }, query, signal }));
    return found.map((each) => describeMarker(each, each.environment.name));
  } catch {
    // A chart is worth seeing without them.
    return [];
  }
}

/** Return the marker of a deployment. `place`: its environment, where a chart shows several. */
export function describeMarker(each: DeploymentMarker, place?: string): ChartMarker {
  const kind = each.result === 'failed' ? 'Failed deployment' : 'Deployment';
  return {
    time: new Date(each.at).getTime() / 1000,
    label: `${kind} ${nameDeployment(each)}${place ? `, ${place}` : ''}`.trim(),
    tone: each.result === 'failed' ? 'bad' : 'ok',
    ...(each.number === null ? {} : { href: `/deployments/${each.number}` }),
  };
}

/** Return the number and the commit of a deployment of Pharos, or the service and the version of a reported one. */
export function nameDeployment(each: DeploymentMarker): string {
  const parts = each.number === null ? [each.service ?? each.project.name, each.version] : [`#${each.number}`, each.version?.slice(0, 7)];
  return parts.filter(Boolean).join(' ');
}
