import { onCLS, onFCP, onINP, onLCP, onTTFB } from 'web-vitals';

// Every change, not only the last one: v1.js keeps the last value whenever the page is hidden.
const give = ({ name, value, id }) => window.pharos.vital({ name, id, value: Math.round(value * 1e4) / 1e4 });

for (const observe of [onLCP, onINP, onCLS, onFCP, onTTFB]) observe(give, { reportAllChanges: true });
