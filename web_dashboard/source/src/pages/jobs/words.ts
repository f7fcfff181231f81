// Heartbeats and queues in words.
import type { Heartbeat, Run } from '../../../generated/client/types.gen';
import type { Tone } from '../../components/Status.svelte';
import { formatDuration } from '../../format/numbers';

export const STATES: { state: Heartbeat['state']; label: string; tone: Tone; meaning: string }[] = [
  { state: 'down', label: 'Down', tone: 'bad', meaning: 'A run failed or did not begin in time' },
  { state: 'late', label: 'Late', tone: 'warn', meaning: 'A run is due and has not begun; it may still begin within the grace time' },
  { state: 'running', label: 'Running', tone: 'accent', meaning: 'A run has begun and not ended' },
  { state: 'up', label: 'Up', tone: 'ok', meaning: 'The last run succeeded' },
  { state: 'new', label: 'Waiting', tone: 'idle', meaning: 'No signal has arrived yet' },
  { state: 'paused', label: 'Paused', tone: 'idle', meaning: 'Signals are recorded and do not change the state' },
  { state: 'unknown', label: 'Unknown', tone: 'idle', meaning: 'Signals are received but not yet processed' },
];

const BY_NAME = new Map(STATES.map((each) => [each.state, each]));

export function describeState(state: Heartbeat['state']): { label: string; tone: Tone; meaning: string } {
  return BY_NAME.get(state) ?? { label: state, tone: 'idle', meaning: '' };
}

/** `every 5 min`, or the cron expression with what it means where that is plain. */
export function describeSchedule(heartbeat: Pick<Heartbeat, 'cron' | 'period_seconds' | 'timezone'>): string {
  if (heartbeat.period_seconds !== null) return describePeriod(heartbeat.period_seconds);
  return describeCron(heartbeat.cron ?? '') ?? heartbeat.cron ?? '';
}

/** `every day`, `every hour`, `every 90 min`. */
function describePeriod(seconds: number): string {
  const whole: Record<number, string> = { 60: 'every minute', 3600: 'every hour', 86_400: 'every day', 604_800: 'every week' };
  return whole[seconds] ?? `every ${formatDuration(seconds * 1000)}`;
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];

/** Return plain words for common cron expressions, or undefined. */
export function describeCron(cron: string): string | undefined {
  const [minute, hour, day, month, weekday, ...rest] = cron.trim().split(/\s+/);
  if (weekday === undefined || rest.length || month !== '*' || minute === undefined || hour === undefined) return undefined;
  if (day === '*' && weekday === '*' && hour === '*') {
    if (minute === '*') return 'every minute';
    const step = /^\*\/(\d+)$/.exec(minute)?.[1];
    if (step !== undefined) return `every ${step} min`;
    return isNumber(minute) ? `hourly at minute ${minute}` : undefined;
  }
  if (!isNumber(minute)) return undefined;
  const everyHours = /^\*\/(\d+)$/.exec(hour)?.[1];
  if (day === '*' && weekday === '*' && everyHours !== undefined) return `every ${everyHours} h at minute ${minute}`;
  if (!isNumber(hour)) return undefined;
  const at = `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  if (day === '*' && weekday === '*') return `daily at ${at}`;
  if (day === '*' && weekday === '1-5') return `Monday to Friday at ${at}`;
  if (day === '*' && isNumber(weekday)) return `every ${DAYS[Number(weekday)] ?? weekday} at ${at}`;
  if (weekday === '*' && day !== undefined && isNumber(day)) return `monthly on day ${day} at ${at}`;
  return undefined;
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}

/** The median of the durations in milliseconds, or undefined without one. */
export function medianDuration(runs: readonly Pick<Run, 'duration_seconds'>[] | null): number | undefined {
  const durations = (runs ?? []).flatMap((run) => (run.duration_seconds === null ? [] : [run.duration_seconds])).toSorted((a, b) => a - b);
  const middle = durations[Math.floor((durations.length - 1) / 2)];
  return middle === undefined ? undefined : middle * 1000;
}

export const OUTCOMES: Record<Run['outcome'], { label: string; tone: Tone }> = {
  succeeded: { label: 'Succeeded', tone: 'ok' },
  failed: { label: 'Failed', tone: 'bad' },
  timed_out: { label: 'Timed out', tone: 'bad' },
  open: { label: 'Running', tone: 'accent' },
};

/** A duration for an axis: one unit, short. */
export function formatAxisDuration(ms: number): string {
  if (ms === 0) return '0';
  for (const [size, unit] of [[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'min'], [1000, 's']] as const) {
    if (ms >= size) return `${Number((ms / size).toFixed(1))} ${unit}`;
  }
  return `${Math.round(ms)} ms`;
}
