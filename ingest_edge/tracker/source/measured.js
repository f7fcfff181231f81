import { silent } from './privacy.js';
import { add } from './queue.js';
import { framed, script } from './settings.js';

// The last value of each metric that has changed since it was reported.
let latest = {};

// Called by vitals.js.
export const vital = ({ name, value, id }) => {
  latest[name] = { name: 'Web Vital', metric: name, value, id };
};

export const reportVitals = (path) => {
  for (const name in latest) add('event', path, { properties: latest[name] });
  latest = {};
};

export const loadVitals = () => {
  if (framed || silent()) return;
  const tag = document.createElement('script');
  tag.src = new URL('vitals.js', script.src).href;
  tag.nonce = script.nonce;
  document.head.appendChild(tag);
};
