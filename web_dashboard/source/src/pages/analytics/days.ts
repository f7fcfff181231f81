// Calendar days of a site, as texts like `2026-11-26`.

/** Return today in a time zone. */
export function todayIn(timezone: string): string {
  return new Intl.DateTimeFormat('en-CA', { timeZone: timezone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(new Date());
}

/** Return the day so many days later. */
export function addDays(day: string, number: number): string {
  const date = new Date(`${day}T00:00:00Z`);
  date.setUTCDate(date.getUTCDate() + number);
  return date.toISOString().slice(0, 10);
}

/** Return the first day of the month so many months later. */
export function startOfMonth(day: string, months = 0): string {
  const date = new Date(`${day.slice(0, 7)}-01T00:00:00Z`);
  date.setUTCMonth(date.getUTCMonth() + months);
  return date.toISOString().slice(0, 10);
}

/** `1 Nov – 26 Nov 2026`, `26 Nov 2026`. */
export function describeDays(from: string, to: string): string {
  const [first, last] = [new Date(`${from}T00:00:00Z`), new Date(`${to}T00:00:00Z`)];
  const withYear = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });
  if (from === to) return withYear.format(last);
  const isOneYear = from.slice(0, 4) === to.slice(0, 4);
  const short = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
  return `${(isOneYear ? short : withYear).format(first)} – ${withYear.format(last)}`;
}

/**
 * Return the seconds at which a chart draws a time of the site, so that its axis shows the clock of the site: `at` is a
 * date, or a time with the site's offset.
 */
export function chartSeconds(at: string): number {
  return new Date(at.length === 10 ? `${at}T00:00:00` : at.slice(0, 19)).getTime() / 1000;
}

/** Return where a moment lies on such an axis. */
export function chartSecondsOf(moment: string, timezone: string): number {
  const parts = new Intl.DateTimeFormat('sv-SE', { timeZone: timezone, dateStyle: 'short', timeStyle: 'medium' }).format(new Date(moment));
  return new Date(parts.replace(' ', 'T')).getTime() / 1000;
}

/** Return the seconds of all times, strictly ascending: an hour that a clock change repeats follows the first one. */
export function chartTimes(ats: string[]): number[] {
  let last = -Infinity;
  return ats.map((at) => {
    last = Math.max(chartSeconds(at), last + 1);
    return last;
  });
}
