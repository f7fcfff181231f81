// The kinds of data as people call them.
import type { Storage } from '../../../../generated/client/types.gen';

export type Kind = Storage['kinds'][number];

export const KIND_LABELS: Record<Kind['kind'], [string, string]> = {
  telemetry_events: ['Events', 'sent by applications'],
  otel_traces: ['Traces', 'spans of OpenTelemetry'],
  otel_logs: ['Logs', 'log records of OpenTelemetry'],
  otel_metrics: ['Metrics', 'data points of OpenTelemetry'],
  exceptions: ['Exceptions', 'copies by which they are grouped'],
  pageviews: ['Page views', 'and other events of sites'],
  daily_rollups: ['Daily rollups', 'visits of finished days, for reports'],
  dropped_pageviews: ['Dropped page views', 'counts of bots and refused events'],
  queue_history: ['Queue history', 'snapshots of queues, states of workers'],
  ingest_receipts: ['Ingest receipts', 'the result of each batch'],
};

/** Return the rows and bytes that a retention of so many days deletes now. */
export function findDeleted(kind: Kind, days: number, now: number): { rows: number; bytes: number } {
  const deleted = { rows: 0, bytes: 0 };
  for (const part of kind.parts) {
    if (Date.parse(`${part.until}T00:00:00Z`) + days * 86_400_000 > now) continue;
    deleted.rows += part.rows;
    deleted.bytes += part.bytes;
  }
  return deleted;
}

/** `30 days`, `1 year`, `3 years`. */
export function describeDays(days: number | null): string {
  if (days === null) return 'forever';
  if (days >= 365 && days % 365 === 0) return days === 365 ? '1 year' : `${days / 365} years`;
  return days === 1 ? '1 day' : `${days} days`;
}
