// Values of metrics with their units, which are written as in UCUM (OpenTelemetry's convention).
import { formatBytes, formatCount, formatDuration } from '../../../format/numbers';

/** What aggregations are called; percentiles keep their names. */
export const AGGREGATIONS: Record<string, string> = {
  avg: 'Average', sum: 'Sum', min: 'Minimum', max: 'Maximum', rate: 'Rate', count: 'Count',
};

/** Return a value with its unit; a rate is a second. */
export function formatMeasured(value: number, unit: string | null, aggregation: string): string {
  if (aggregation === 'count') return formatCount(value);
  const per = aggregation === 'rate' ? '/s' : '';
  switch (unit) {
    case 'ms':
      return `${formatDuration(value)}${per}`;
    case 's':
      return `${formatDuration(value * 1000)}${per}`;
    case 'By':
    case 'bytes':
      return `${formatBytes(value)}${per}`;
    case '%':
      return `${formatCount(value)} %${per}`;
    case null:
    case '':
    case '1':
      return `${formatCount(value)}${per && ` ${per}`}`;
    default:
      return `${formatCount(value)} ${unit.replace(/^\{(.*)\}$/, '$1')}${per}`;
  }
}


/** Return ` · bytes` for `By`, ` · connections` for `{connection}`; nothing for a plain number. */
export function nameUnit(unit: string | null): string {
  if (!unit || unit === '1') return '';
  const names: Record<string, string> = { By: 'bytes', ms: 'milliseconds', s: 'seconds', us: 'microseconds', ns: 'nanoseconds' };
  const curly = /^\{(.*)\}$/.exec(unit)?.[1];
  return ` · ${names[unit] ?? (curly === undefined ? unit : `${curly}${curly.endsWith('s') ? '' : 's'}`)}`;
}
