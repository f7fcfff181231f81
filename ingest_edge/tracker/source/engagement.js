import { event } from './pages.js';
import { framed } from './settings.js';

const FIVE_MINUTES = 3e5;

let since = 0;
let spent = 0;

// Adds up what has been visible so far. Reports come every five minutes: a longer time was a sleeping computer.
export const measure = () => {
  const now = performance.now();
  if (since) spent += Math.min(now - since, FIVE_MINUTES);
  since = !framed && document.visibilityState === 'visible' ? now : 0;
};

export const report = () => {
  measure();
  if (spent < 500) return;
  event({ name: 'Engagement', visible_seconds: Math.round(spent / 100) / 10 });
  spent = 0;
};

// A page's time begins anew.
export const begin = () => {
  since = spent = 0;
  measure();
};

// In the back/forward cache no time passes.
export const pause = () => {
  since = 0;
};

export const repeat = (work) => setInterval(work, FIVE_MINUTES);
