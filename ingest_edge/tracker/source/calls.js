import { path, event, view } from './pages.js';
import { optIn, optOut } from './privacy.js';
import { flush, restore } from './queue.js';

// An event may have eight properties. Name and revenue come first, so that they are never the ones dropped.
const custom = (name, sent) => {
  const { revenue, currency } = sent || {};
  const all = Object.assign({ name, revenue, currency }, sent, { name });
  const properties = {};
  let count = 0;
  for (const key of Object.keys(all)) {
    if (all[key] !== undefined && count++ < 8) properties[key] = all[key];
  }
  event(properties);
};

// Handles a call of `window.pharos(…)`.
export const call = (command, name, properties) => {
  if (command === 'event') custom(name, properties);
  if (command === 'pageview') view();
  if (command === 'optin') optIn();
  if (command === 'optout') {
    optOut();
    // Removes all events that wait to be sent.
    restore();
    flush();
  }
};
