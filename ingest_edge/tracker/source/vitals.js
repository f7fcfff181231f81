import { onCLS, onFCP, onINP, onLCP, onTTFB } from 'web-vitals';

// Passes on every change: v1.js reports the last value of each metric when the page is hidden.
const report = ({ name, value, id }) => window.pharos.vital({ name, id, value: Math.round(value * 1e4) / 1e4 });

for (const observe of [onLCP, onINP, onCLS, onFCP, onTTFB]) observe(report, { reportAllChanges: true });
