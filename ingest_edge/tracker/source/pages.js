import { begin, report } from './engagement.js';
import { guard } from './guard.js';
import { add } from './queue.js';
import { framed, has } from './settings.js';

export let path;

const here = () => location.pathname + (has('hash') ? location.hash : '');

export const event = (properties, wait) => add('event', path, { properties }, wait);

const referrer = guard(() => {
  const { host, hostname } = new URL(document.referrer);
  return host === location.host ? undefined : hostname;
});

export const view = (first) => {
  if (!first) report();
  path = here();
  if (framed) return;
  begin();
  const query = new URLSearchParams(location.search);
  const fields = { referrer_host: (first && referrer()) || undefined };
  for (const name of ['utm_source', 'utm_medium', 'utm_campaign']) fields[name] = query.get(name) || undefined;
  add('pageview', path, fields, first ? 1 : undefined);
};

// Single-page applications change the address in many ways; a page view is a change of the path.
export const changed = () => {
  if (here() !== path) view();
};
