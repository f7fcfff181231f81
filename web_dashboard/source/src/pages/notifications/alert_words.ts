// Incidents, severities and kinds in words.
import type { AlertKind, Incident } from '../../../generated/client/types.gen';
import type { Tone } from '../../components/Status.svelte';

export const SEVERITY_TONES: Record<Incident['severity'], Tone> = { critical: 'bad', warning: 'warn', info: 'accent' };
export const SEVERITY_WORDS: Record<Incident['severity'], string> = { critical: 'Critical', warning: 'Warning', info: 'Info' };
export const SEVERITIES = ['info', 'warning', 'critical'] as const;

const FAMILIES: Record<string, string> = {
  heartbeat: 'Heartbeats', queue: 'Queues', exception: 'Exceptions', service: 'Services', metric: 'Metrics', deployment: 'Deployments',
  process: 'Processes', preview: 'Previews', site: 'Sites', platform: 'Pharos itself',
};

/** `heartbeat` → `Heartbeats`. */
export function describeFamily(family: string): string {
  return FAMILIES[family] ?? family;
}

/** Return the words for a kind or a family, for chips and lists. */
export function describeKind(name: string, kinds: readonly AlertKind[] | undefined): string {
  return kinds?.find((kind) => kind.name === name)?.meaning ?? describeFamily(name);
}

export function describeIncidentState(incident: Pick<Incident, 'state' | 'acknowledged_at' | 'silenced_until'>): { tone: Tone; text: string } {
  if (incident.state === 'resolved') return { tone: 'ok', text: 'Ended' };
  if (incident.state === 'info') return { tone: 'idle', text: 'Event' };
  if (incident.silenced_until !== null) return { tone: 'idle', text: 'Silenced' };
  return incident.acknowledged_at === null ? { tone: 'bad', text: 'Open' } : { tone: 'warn', text: 'Acknowledged' };
}

/** Return the page of what an incident is about, or undefined. */
export function linkOf(incident: Pick<Incident, 'about' | 'environment' | 'project' | 'kind'>, labels: Record<string, string> = {}): { href: string; label: string } | undefined {
  const { about, environment } = incident;
  const inside = environment === null ? undefined : `/monitoring/${environment.id}`;
  if (about === null) {
    const queue = labels.queue;
    return incident.kind.startsWith('queue.') && queue !== undefined ? { href: `/jobs/queues?search=${encodeURIComponent(queue)}`, label: 'Open the queue' } : undefined;
  }
  const id = encodeURIComponent(about.id);
  switch (about.type) {
    case 'heartbeat':
      return { href: `/jobs/heartbeats/${id}`, label: 'Open the heartbeat' };
    case 'queue':
      return { href: `/jobs/queues/${id}`, label: 'Open the queue' };
    case 'deployment':
      return { href: `/deployments/${id}`, label: `Open deployment ${about.id}` };
    case 'site':
      return { href: `/analytics/${id}`, label: 'Open the report of the site' };
    case 'exception':
      return inside === undefined ? undefined : { href: `${inside}/exceptions/${id}`, label: 'Open the exception' };
    case 'service':
      return inside === undefined ? undefined : { href: `${inside}/services/${id}`, label: 'Open the service' };
    case 'metric':
      return inside === undefined ? undefined : { href: `${inside}/metrics?metric=${id}`, label: 'Open the metric' };
  }
}
