// The figures of a report: their labels, units, and which direction is good.
import { formatCount, formatDuration } from '../../format/numbers';

export type Metric = 'visitors' | 'visits' | 'pageviews' | 'views_per_visit' | 'bounce_rate' | 'visit_duration' | 'conversion_rate';

const percent = (value: number) => `${value.toFixed(1).replace(/\.0$/, '')} %`;
const seconds = (value: number) => formatDuration(value * 1000).replace(/^0 ms$/, '0 s');

export const METRICS: Record<Metric, { label: string; format: (value: number) => string; isRate?: boolean; lessIsBetter?: boolean; hint: string }> = {
  visitors: { label: 'Visitors a day', format: formatCount, hint: 'Unique visitors of a day, on average over the days of the period' },
  visits: { label: 'Visits', format: formatCount, hint: 'Visits that started in the period' },
  pageviews: { label: 'Page views', format: formatCount, hint: 'Page views in the period' },
  views_per_visit: { label: 'Views per visit', format: formatCount, hint: 'Page views divided by visits' },
  bounce_rate: { label: 'Bounce rate', format: percent, isRate: true, lessIsBetter: true, hint: 'Visits with one page view, no interaction and under 10 s visible' },
  visit_duration: { label: 'Visit duration', format: seconds, hint: 'From the first to the last event of a visit, on average' },
  conversion_rate: { label: 'Conversion rate', format: percent, isRate: true, hint: 'Visitors who reached any goal' },
};

export function isMetric(text: string | undefined): text is Metric {
  return text !== undefined && text in METRICS;
}

/** `+12.5 %`, `−3 points`. */
export function formatChange(metric: Metric, change: number): string {
  const size = Math.abs(change).toFixed(1).replace(/\.0$/, '');
  const sign = change > 0 ? '+' : change < 0 ? '−' : '±';
  return `${sign}${size}${METRICS[metric].isRate ? ' points' : ' %'}`;
}
