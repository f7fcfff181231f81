// The values of the form of a heartbeat, as a person types them.
import type { CreateHeartbeat, Heartbeat } from '../../../generated/client/types.gen';

export interface HeartbeatForm {
  name: string;
  kind: 'cron' | 'period';
  cron: string;
  timezone: string;
  period: number | null;
  periodUnit: number;
  grace: number | null;
  graceUnit: number;
  maxRuntime: number | null;
  maxRuntimeUnit: number;
  failures: number | null;
}

export const UNITS = [
  { seconds: 1, label: 'seconds' },
  { seconds: 60, label: 'minutes' },
  { seconds: 3600, label: 'hours' },
  { seconds: 86_400, label: 'days' },
];

export function emptyForm(): HeartbeatForm {
  return {
    name: '', kind: 'cron', cron: '0 3 * * *', timezone: localZone(), period: 1, periodUnit: 3600,
    grace: 5, graceUnit: 60, maxRuntime: 1, maxRuntimeUnit: 3600, failures: 1,
  };
}

export function formOf(heartbeat: Heartbeat): HeartbeatForm {
  const [period, periodUnit] = split(heartbeat.period_seconds ?? 3600);
  const [grace, graceUnit] = split(heartbeat.grace_seconds);
  const [maxRuntime, maxRuntimeUnit] = split(heartbeat.max_runtime_seconds);
  return {
    name: heartbeat.name, kind: heartbeat.cron === null ? 'period' : 'cron', cron: heartbeat.cron ?? '0 3 * * *', timezone: heartbeat.timezone,
    period, periodUnit, grace, graceUnit, maxRuntime, maxRuntimeUnit, failures: heartbeat.failures_before_down,
  };
}

/** Return the body of the request. A number that is missing is left out, so that the API says what it needs. */
export function bodyOf(form: HeartbeatForm): CreateHeartbeat {
  const seconds = (count: number | null, unit: number) => (count === null ? undefined : count * unit);
  return {
    name: form.name,
    ...(form.kind === 'cron' ? { cron: form.cron, timezone: form.timezone } : { period_seconds: seconds(form.period, form.periodUnit) }),
    grace_seconds: seconds(form.grace, form.graceUnit),
    max_runtime_seconds: seconds(form.maxRuntime, form.maxRuntimeUnit),
    failures_before_down: form.failures ?? undefined,
  };
}

export function localZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}

export function timeZones(): string[] {
  return ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')];
}

/** Return the count and the largest unit that divides the seconds. */
function split(seconds: number): [number, number] {
  const unit = UNITS.findLast((each) => seconds % each.seconds === 0 && seconds >= each.seconds)?.seconds ?? 1;
  return [seconds / unit, unit];
}
