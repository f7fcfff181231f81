import { event } from './pages.js';
import { framed } from './settings.js';

const FIVE_MINUTES = 3e5;

let since = 0;
let spent = 0;

// Adds up the visible time. Reports are sent every five minutes: a longer interval means that the computer slept.
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

// Restarts the measurement for a new page.
export const begin = () => {
  since = spent = 0;
  measure();
};

// Stops the measurement while the page is in the back/forward cache.
export const pause = () => {
  since = 0;
};

export const repeat = (callback) => setInterval(callback, FIVE_MINUTES);
