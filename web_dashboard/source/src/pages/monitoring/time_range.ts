// The time range of a page: `range` (15m to 30d) or `from` and `to` in the query string.

export const RANGES = ['15m', '1h', '6h', '24h', '7d', '30d'] as const;
export type RangeName = (typeof RANGES)[number];

const LENGTH_MS: Record<RangeName, number> = {
  '15m': 900_000,
  '1h': 3_600_000,
  '6h': 21_600_000,
  '24h': 86_400_000,
  '7d': 604_800_000,
  '30d': 2_592_000_000,
};

/** What a read is asked for: the last so much time, or from one moment to another. */
export type RangeQuery = { since: string } | { from: string; to: string };

export interface TimeRange {
  /** The name of a range that ends now; undefined: `from` and `to` are given. */
  name: RangeName | undefined;
  query: RangeQuery;
  /** Milliseconds since 1970. */
  begin: number;
  end: number;
}

/** Return the range of an address; without one, the last `fallback`. */
export function readRange(query: Record<string, string>, fallback: RangeName): TimeRange {
  const begin = Date.parse(query.from ?? '');
  const end = Date.parse(query.to ?? '');
  if (begin < end) {
    const asked = { from: new Date(begin).toISOString(), to: new Date(end).toISOString() };
    return { name: undefined, query: asked, begin, end };
  }
  const name = RANGES.find((each) => each === query.range) ?? fallback;
  const now = Date.now();
  return { name, query: { since: name }, begin: now - LENGTH_MS[name], end: now };
}

/** Return the parameters of an address that keep this range on another page. */
export function rangeParams(query: Record<string, string>): Record<string, string | undefined> {
  return { range: query.range, from: query.from, to: query.to };
}

/** Return the start of every step of the range, in seconds since 1970. */
export function stepTimes(begin: number, end: number, stepSeconds: number): number[] {
  const first = Math.floor(begin / 1000 / stepSeconds);
  const last = Math.max(first, Math.ceil(end / 1000 / stepSeconds) - 1);
  return Array.from({ length: Math.min(last - first + 1, 2000) }, (_, i) => (first + i) * stepSeconds);
}

/** Return a value for each time: that of the point at it, or `missing`. */
export function alignPoints<P extends { at: string }, V>(times: number[], points: P[], value: (point: P) => V, missing: V): V[] {
  const found = new Map(points.map((point) => [Date.parse(point.at) / 1000, value(point)]));
  return times.map((time) => found.get(time) ?? missing);
}

/**
 * Return the start of every step of a list's `trend` of about `steps` steps. Lists of what was seen look ten minutes
 * ahead if they end now: `isAhead`.
 */
export function trendTimes(range: TimeRange, steps: number, isAhead: boolean): number[] {
  const ahead = isAhead && range.name !== undefined ? 600 : 0;
  const seconds = Math.ceil(((range.end - range.begin) / 1000 + ahead) / steps);
  const unit = seconds < 1800 ? 60 : 3600;
  return stepTimes(range.begin, range.end, Math.ceil(seconds / unit) * unit);
}
