// Figures of queues that a page computes from what the API reports.
import type { ListedQueue, QueueTrendPoint, WorkerCounts } from '../../../generated/client/types.gen';
import { formatCount, plural } from '../../format/numbers';

/** What `reserved` means, for a tooltip. */
export const RESERVED = 'Jobs that a worker has taken from the queue and not finished';

/** The jobs that began in the trend, per minute; undefined if no worker reported any. */
export function throughput(trend: QueueTrendPoint[] | null, minutes: number): number | undefined {
  const jobs = (trend ?? []).reduce((sum, point) => sum + point.jobs_started, 0);
  return jobs === 0 ? undefined : jobs / minutes;
}

export function describeRate(perMinute: number | undefined): string {
  if (perMinute === undefined) return '–';
  if (perMinute >= 10) return `${formatCount(Math.round(perMinute))}/min`;
  if (perMinute >= 1) return `${perMinute.toFixed(1)}/min`;
  return `${formatCount(Math.round(perMinute * 600) / 10)}/h`;
}

export function describeWorkers(workers: WorkerCounts): string {
  const parts = [workers.busy && `${workers.busy} busy`, workers.idle && `${workers.idle} idle`, workers.lost && `${workers.lost} lost`];
  const present = parts.filter(Boolean);
  return present.length ? present.join(', ') : 'none';
}

export function describeDepth(queue: Pick<ListedQueue, 'pending'>): string {
  return queue.pending === null ? '–' : plural(queue.pending, 'job');
}
