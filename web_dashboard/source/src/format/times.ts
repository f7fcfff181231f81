// Times in the time zone of the viewer. `Time.svelte` shows them with UTC on hover.
import { formatDuration } from './numbers';

const SHORT = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
const WITH_YEAR = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});
const WITH_SECONDS = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});

/** `26 Nov, 14:03`; with the year if it is not the present one. */
export function formatTime(value: string | Date): string {
  const time = new Date(value);
  return (time.getFullYear() === new Date().getFullYear() ? SHORT : WITH_YEAR).format(time);
}

/** `26 Nov 2026, 14:03:22` in the viewer's time zone. */
export function formatExactTime(value: string | Date): string {
  return WITH_SECONDS.format(new Date(value));
}

/** `2026-11-26 13:03:22 UTC`. */
export function formatUtc(value: string | Date): string {
  return `${new Date(value).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** `3 min ago`, `in 2 h`, `just now`: one unit, for times near the present. */
export function formatRelative(value: string | Date, now: number = Date.now()): string {
  const difference = now - new Date(value).getTime();
  const distance = Math.abs(difference);
  if (distance < 5000) return 'just now';
  const text = coarse(distance);
  return difference >= 0 ? `${text} ago` : `in ${text}`;
}

function coarse(ms: number): string {
  const units: [number, string][] = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1000, 's'],
  ];
  for (const [size, unit] of units) if (ms >= size) return `${Math.floor(ms / size)} ${unit}`;
  return '0 s';
}

/** The duration between two times; up to now without an end. */
export function formatBetween(from: string, to: string | null | undefined): string {
  return formatDuration(Math.max(0, new Date(to ?? Date.now()).getTime() - new Date(from).getTime()));
}
