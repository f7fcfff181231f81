// How figures of telemetry are written.
import { formatDuration } from '../../format/numbers';

/** `12.5 /s`, `1,204 /s`; small rates a minute: `3 /min`. `perMinute`: what a column of several rates uses. */
export function formatRate(perSecond: number, perMinute: boolean = perSecond > 0 && perSecond < 0.1): string {
  if (perMinute) return `${trim(perSecond * 60)} /min`;
  return `${trim(perSecond)} /s`;
}

/** A duration in milliseconds; `–` if nothing was measured. */
export function formatLatency(ms: number | null): string {
  return ms === null ? '–' : formatDuration(ms);
}

function trim(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return new Intl.NumberFormat('en', { maximumFractionDigits: digits }).format(value);
}
