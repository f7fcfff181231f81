// Quiet hours as a form: messages below critical wait until they end.
import type { QuietHours } from '../../../generated/client/types.gen';

export type Day = NonNullable<QuietHours['days']>[number];
export const DAYS: readonly Day[] = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'];

export interface HoursForm {
  isOn: boolean;
  from: string;
  to: string;
  timezone: string;
  days: Day[];
}

export function formOfHours(hours: Record<string, unknown> | null): HoursForm {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
  const days = Array.isArray(hours?.days) ? DAYS.filter((day) => (hours.days as unknown[]).includes(day)) : [...DAYS];
  return {
    isOn: hours !== null,
    from: typeof hours?.from === 'string' ? hours.from : '22:00',
    to: typeof hours?.to === 'string' ? hours.to : '07:00',
    timezone: typeof hours?.timezone === 'string' ? hours.timezone : zone,
    days,
  };
}

/** Return the body; null: no quiet hours. */
export function bodyOfHours(form: HoursForm): QuietHours | null {
  if (!form.isOn) return null;
  return { from: form.from, to: form.to, timezone: form.timezone, days: form.days.length === DAYS.length ? null : form.days };
}
