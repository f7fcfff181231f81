// Thresholds in words.
import type { Threshold } from '../../../../generated/client/types.gen';
import { formatCount, formatDuration } from '../../../format/numbers';

export const KINDS: { kind: Threshold['kind']; label: string; target: string; unit: string; example: string }[] = [
  { kind: 'queue.wait', label: 'Age of the oldest job of a queue', target: 'Queue', unit: 'seconds', example: 'mail' },
  { kind: 'queue.size', label: 'Jobs waiting in a queue', target: 'Queue', unit: 'jobs', example: 'mail' },
  { kind: 'service.error_rate', label: 'Error rate of a service', target: 'Service', unit: 'percent', example: 'web' },
  { kind: 'service.latency', label: 'p95 latency of a service', target: 'Service', unit: 'milliseconds', example: 'web' },
  { kind: 'metric.value', label: 'Value of a metric', target: 'Metric', unit: 'in the unit of the metric', example: 'queue.size' },
];

export function kindOf(kind: Threshold['kind']): (typeof KINDS)[number] {
  return KINDS.find((each) => each.kind === kind) ?? (KINDS[0] as (typeof KINDS)[number]);
}

/** Write a value of a threshold with its unit. */
export function writeValue(kind: Threshold['kind'], value: number): string {
  const rounded = Math.round(value * 100) / 100;
  switch (kind) {
    case 'queue.wait':
      return formatDuration(value * 1000);
    case 'queue.size':
      return `${formatCount(rounded)} jobs`;
    case 'service.error_rate':
      return `${formatCount(rounded)} %`;
    case 'service.latency':
      return formatDuration(value);
    case 'metric.value':
      return formatCount(rounded);
  }
}

/** `above 50 jobs for 1 min` */
export function describeLimit(threshold: Pick<Threshold, 'kind' | 'direction' | 'threshold' | 'pending_seconds'>): string {
  const pending = threshold.pending_seconds > 0 ? ` for ${formatDuration(threshold.pending_seconds * 1000)}` : '';
  return `${threshold.direction} ${writeValue(threshold.kind, threshold.threshold)}${pending}`;
}
