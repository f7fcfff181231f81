import { path, event, view } from './pages.js';
import { optIn, optOut } from './privacy.js';
import { flush, restore } from './queue.js';

// An event takes eight properties. Name and revenue are put first, so that they are among them.
const custom = (name, given) => {
  const { revenue, currency } = given || {};
  const all = Object.assign({ name, revenue, currency }, given, { name });
  const properties = {};
  let count = 0;
  for (const key of Object.keys(all)) {
    if (all[key] !== undefined && count++ < 8) properties[key] = all[key];
  }
  event(properties);
};

// What `window.pharos(…)` does.
export const call = (what, name, given) => {
  if (what === 'event') custom(name, given);
  if (what === 'pageview') view();
  if (what === 'optin') optIn();
  if (what === 'optout') {
    optOut();
    // Nothing is sent any more, and what was to be sent is forgotten.
    restore();
    flush();
  }
};
