// Numbers with units, in English notation.

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** `12345` → `12,345`. */
export function formatCount(value: number): string {
  return Number.isInteger(value) ? WHOLE.format(value) : new Intl.NumberFormat('en', { maximumFractionDigits: 2 }).format(value);
}

/** `12345` → `12.3K`, for axes and tiles; show the whole number on hover. */
export function formatShort(value: number): string {
  return SHORT.format(value);
}

/** `0.0123` → `1.2 %`. The value is a share of 1. */
export function formatShare(value: number): string {
  const percent = value * 100;
  const digits = percent !== 0 && Math.abs(percent) < 10 ? 1 : 0;
  return `${percent.toFixed(digits)} %`;
}

/** Milliseconds as people read them: `0.42 ms`, `17 ms`, `1.24 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function formatDuration(ms: number): string {
  if (ms < 1) return `${round(ms, 2)} ms`;
  if (ms < 1000) return `${round(ms, ms < 10 ? 1 : 0)} ms`;
  if (ms < 60_000) return `${round(ms / 1000, ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return two(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return two(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(minutes / 60);
  return two(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** Bytes in binary units: `1.5 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${round(value, unit === 0 || value >= 100 ? 0 : 1)} ${units[unit]}`;
}

/** `plural(2, 'deployment')` → `2 deployments`. */
export function plural(count: number, singular: string, many = `${singular}s`): string {
  return `${formatCount(count)} ${count === 1 ? singular : many}`;
}

function two(first: number, firstUnit: string, second: number, secondUnit: string): string {
  return second === 0 ? `${first} ${firstUnit}` : `${first} ${firstUnit} ${second} ${secondUnit}`;
}

function round(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}
