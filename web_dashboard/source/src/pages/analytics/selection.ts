// What a report shows, as the query string of its page has it: the period, the comparison and the filters.

export type Dimension = 'page' | 'entry_page' | 'exit_page' | 'source' | 'campaign' | 'country' | 'device' | 'browser' | 'os' | 'event';
export type Operator = 'is' | 'is_not' | 'contains' | 'contains_not';
export type Compare = 'none' | 'previous' | 'year' | 'custom';

export interface Filter {
  dimension: Dimension;
  operator: Operator;
  values: string[];
}

export const DIMENSIONS: Record<Dimension, string> = {
  page: 'Page',
  entry_page: 'Entry page',
  exit_page: 'Exit page',
  source: 'Source',
  campaign: 'Campaign',
  country: 'Country',
  device: 'Device',
  browser: 'Browser',
  os: 'Operating system',
  event: 'Event',
};
export const OPERATORS: Record<Operator, string> = { is: 'is', is_not: 'is not', contains: 'contains', contains_not: 'does not contain' };

const PREFIXES: [string, Operator][] = [
  ['!~', 'contains_not'],
  ['!', 'is_not'],
  ['~', 'contains'],
  ['=', 'is'],
];
const NAMES = Object.keys(DIMENSIONS) as Dimension[];

type Query = Record<string, string>;

/** Return the filters of a query string: `?source=Google|Bing&page=~/docs&device=!Mobile`. */
export function readFilters(query: Query): Filter[] {
  const filters: Filter[] = [];
  for (const dimension of NAMES) {
    const text = query[dimension];
    if (!text) continue;
    const [prefix, operator] = PREFIXES.find(([each]) => text.startsWith(each)) ?? ['', 'is' as const];
    const values = splitValues(text.slice(prefix.length));
    if (values.length) filters.push({ dimension, operator, values });
  }
  return filters;
}

/** Return the value of a filter in the query string; undefined: without values. */
export function writeFilter(operator: Operator, values: string[]): string | undefined {
  if (!values.length) return undefined;
  const text = values.map((value) => value.replace(/[\\|]/g, '\\$&')).join('|');
  if (operator !== 'is') return (PREFIXES.find(([, each]) => each === operator)?.[0] ?? '') + text;
  return /^[!~=]/.test(text) ? `=${text}` : text;
}

/** Return the filters as the API reads them; undefined: none. */
export function filtersForApi(filters: Filter[]): string | undefined {
  return filters.length ? JSON.stringify(filters.map((each) => [each.operator, each.dimension, each.values])) : undefined;
}

/** Return the changes of the query string that remove all filters. */
export function withoutFilters(): Record<string, undefined> {
  return Object.fromEntries(NAMES.map((name) => [name, undefined]));
}

function splitValues(text: string): string[] {
  return (text.match(/(?:\\.|[^|\\])+/g) ?? []).map((part) => part.replace(/\\(.)/g, '$1')).slice(0, 20);
}

export interface PeriodParameters {
  days?: number;
  from?: string;
  to?: string;
}

/** Return the period that a query string asks for: `days`, or `from` and `to`. */
export function readPeriod(query: Query): PeriodParameters {
  if (query.from && query.to) return { from: query.from, to: query.to };
  const days = Number(query.days ?? 30);
  return { days: Number.isInteger(days) && days >= 1 && days <= 400 ? days : 30 };
}

export function readCompare(query: Query): Compare {
  const { compare } = query;
  return compare === 'none' || compare === 'year' || compare === 'custom' ? compare : 'previous';
}
