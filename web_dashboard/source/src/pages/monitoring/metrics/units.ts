// Values of metrics with their units, which are written as in UCUM (OpenTelemetry's convention).
import { formatBytes, formatCount, formatDuration } from '../../../format/numbers';

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

