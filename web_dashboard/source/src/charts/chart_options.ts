// The options of uPlot for a `TimeChart`: colours of the theme, axes, markers.
import uPlot from 'uplot';
import type { ChartMarker, ChartSeries } from './TimeChart.svelte';

interface Request {
  width: number;
  height: number;
  series: ChartSeries[];
  markers: ChartMarker[];
  formatAxis: (value: number) => string;
  syncKey: string | undefined;
  onCursor: (index: number | null) => void;
  onselect: ((from: number, to: number) => void) | undefined;
  /** How long a unit of a duration is, in seconds; undefined: the values are no durations. */
  durationUnit: number | undefined;
}

const FONT = '12px system-ui, sans-serif';

const LABEL_GAP = 10;
const DECIMALS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const DURATION_STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Return the steps of an axis: whole ones for counts, round ones for durations. */
function stepsOf(request: Request, scale: 'left' | 'right'): { incrs?: number[] } {
  const unit = request.durationUnit;
  if (unit !== undefined) return { incrs: [...DECIMALS.map((step) => step / 1000).filter((step) => step < 60), ...DURATION_STEPS].map((step) => step / unit) };
  const shown = request.series.filter((each) => (each.axis ?? 'left') === scale);
  const isWhole = shown.every((each) => each.values.every((value) => value === null || value === undefined || Number.isInteger(value)));
  return isWhole ? { incrs: DECIMALS } : {};
}

/** Return the width of an axis that its labels need. */
function labelWidth(chart: uPlot, labels: string[] | null): number {
  chart.ctx.save();
  chart.ctx.font = FONT;
  const widest = Math.max(0, ...(labels ?? []).map((label) => chart.ctx.measureText(label).width));
  chart.ctx.restore();
  return Math.max(36, Math.ceil(widest) + LABEL_GAP);
}

export function chartOptions(request: Request): uPlot.Options {
  const styles = getComputedStyle(document.documentElement);
  const color = (name: string) => styles.getPropertyValue(`--${name}`).trim();
  const hasRight = request.series.some((each) => each.axis === 'right');
  const axis: uPlot.Axis = {
    stroke: color('text-soft'),
    font: FONT,
    grid: { stroke: color('line'), width: 1 },
    ticks: { show: false },
  };
  return {
    width: request.width,
    height: request.height,
    legend: { show: false },
    padding: [8, hasRight ? 0 : 20, 0, 0],
    scales: { x: { time: true, range: withRoomForBars(request.series) }, left: { range: fromZero }, ...(hasRight ? { right: { range: fromZero } } : {}) },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 28, values: (_chart, ticks, _axis, _space, step) => formatTicks(ticks, step) },
      { ...axis, scale: 'left', ...stepsOf(request, 'left'), size: labelWidth, space: 34, values: (_, ticks) => ticks.map(request.formatAxis) },
      ...(hasRight
        ? [{ ...axis, scale: 'right', ...stepsOf(request, 'right'), side: 1 as const, size: labelWidth, space: 34, grid: { show: false }, values: (_: uPlot, ticks: number[]) => ticks.map(request.formatAxis) }]
        : []),
    ],
    series: [{}, ...request.series.map((each, i) => seriesOptions(each, color(`chart-${each.color ?? (i % 5) + 1}`)))],
    cursor: {
      y: false,
      points: { size: 7 },
      drag: { x: request.onselect !== undefined, y: false, setScale: false },
      ...(request.syncKey === undefined ? {} : { sync: { key: request.syncKey } }),
    },
    hooks: {
      setCursor: [(chart) => request.onCursor(chart.cursor.idx ?? null)],
      setSelect: [
        (chart) => {
          if (!request.onselect || chart.select.width < 5) return;
          const from = chart.posToVal(chart.select.left, 'x');
          const to = chart.posToVal(chart.select.left + chart.select.width, 'x');
          chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          request.onselect(from, to);
        },
      ],
      draw: [(chart) => drawMarkers(chart, request.markers, color)],
    },
  };
}

const DAY_SECONDS = 86_400;
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const SECONDS = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

/** Return the texts of the time axis: days, or times of day with the day at its beginning. */
function formatTicks(ticks: number[], step: number): string[] {
  return ticks.map((tick) => {
    const time = new Date(tick * 1000);
    const isMidnight = time.getHours() === 0 && time.getMinutes() === 0 && time.getSeconds() === 0;
    if (step >= DAY_SECONDS || isMidnight) return DAY.format(time);
    return (step < 60 ? SECONDS : CLOCK).format(time);
  });
}

/** Bars are drawn around their time: half a step of room at both ends shows the first and the last one whole. */
function withRoomForBars(series: ChartSeries[]): uPlot.Range.Function {
  const hasBars = series.some((each) => each.kind === 'bars');
  return (chart, min, max) => {
    const times = chart.data[0];
    const room = hasBars && times.length > 1 ? ((times[1] ?? 0) - (times[0] ?? 0)) / 2 : 0;
    return [min - room, max + room];
  };
}

const fromZero: uPlot.Range.Function = (_chart, _min, max) => [0, max > 0 ? max * 1.08 : 1];

function seriesOptions(series: ChartSeries, stroke: string): uPlot.Series {
  const kind = series.kind ?? 'line';
  return {
    label: series.label,
    scale: series.axis ?? 'left',
    stroke,
    width: kind === 'bars' ? 0 : 1.75,
    points: { show: false },
    spanGaps: false,
    ...(series.dashed ? { dash: [5, 5] } : {}),
    ...(kind === 'line' ? {} : { fill: withAlpha(stroke, kind === 'bars' ? 0.75 : 0.14) }),
    ...(kind === 'bars' && uPlot.paths.bars ? { paths: uPlot.paths.bars({ size: [0.8, 40], radius: 0.15 }) } : {}),
  };
}

function drawMarkers(chart: uPlot, markers: ChartMarker[], color: (name: string) => string): void {
  const { ctx, bbox } = chart;
  const min = chart.scales.x?.min ?? 0;
  const max = chart.scales.x?.max ?? 0;
  ctx.save();
  for (const marker of markers) {
    if (marker.time < min || marker.time > max) continue;
    const x = Math.round(chart.valToPos(marker.time, 'x', true)) + 0.5;
    ctx.strokeStyle = ctx.fillStyle = color(marker.tone ?? 'accent');
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const size = 5 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top + bbox.height - size * 1.4);
    ctx.lineTo(x - size, bbox.top + bbox.height);
    ctx.lineTo(x + size, bbox.top + bbox.height);
    ctx.fill();
  }
  ctx.restore();
}

/** Return the colour `#rrggbb` with an alpha value of 0 to 1. */
function withAlpha(hex: string, alpha: number): string {
  return `${hex}${Math.round(alpha * 255).toString(16).padStart(2, '0')}`;
}
