// What the items of the attention list are called, and where they lead.
import type { AttentionItem } from '../../../generated/client/types.gen';
import type { Tone } from '../../components/Status.svelte';

export const KIND_LABELS: Record<AttentionItem['kind'], string> = {
  incident: 'Incident',
  'deployment.failed': 'Failed deployment',
  'deployment.waiting': 'Waits for approval',
  'variables.waiting': 'Waits for approval',
  'configuration.failed': 'Configuration',
  'exception.new': 'New exception',
  'exception.spike': 'Error spike',
  'service.errors': 'Failing service',
  'service.slow': 'Slow service',
  'heartbeat.down': 'Heartbeat down',
  'heartbeat.late': 'Heartbeat late',
  'queue.wait': 'Slow queue',
  'queue.size': 'Long queue',
};

export const TONES: Record<AttentionItem['severity'], Tone> = { critical: 'bad', warning: 'warn', info: 'accent' };

/** The address of what an item is about. */
export function hrefOf(item: AttentionItem): string {
  const id = encodeURIComponent(item.target.id);
  const monitoring = `/monitoring/${item.environment?.id ?? ''}`;
  switch (item.target.type) {
    case 'incident':
      return `/notifications/incidents/${id}`;
    case 'deployment':
      return `/deployments/${id}`;
    case 'variable_change':
      return item.project && item.environment ? `/deploy/${item.project.id}/${item.environment.id}?tab=variables` : '/deploy';
    case 'configuration_run':
      return `/configuration/${item.project?.id ?? ''}/applications/${id}`;
    case 'exception':
      return `${monitoring}/exceptions/${id}`;
    case 'service':
      return `${monitoring}/services/${id}`;
    case 'heartbeat':
      return `/jobs/heartbeats/${id}`;
    case 'queue':
      return `/jobs/queues/${id}`;
  }
}

/** What a person does next with an item. */
export function actionOf(item: AttentionItem): string {
  if (item.kind === 'deployment.waiting' || item.kind === 'variables.waiting') return item.can_decide ? 'Review' : 'Open';
  if (item.target.type === 'incident' || item.target.type === 'exception') return 'Look closer';
  if (item.kind === 'deployment.failed') return 'Read the log';
  return 'Open';
}
