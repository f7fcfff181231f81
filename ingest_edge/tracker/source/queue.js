import { guard } from './guard.js';
import { identifier } from './identifier.js';
import { silent } from './privacy.js';
import { address, framed, option } from './settings.js';

const BATCH = 20;
// Browsers refuse keepalive requests over 64 KiB.
const BYTES = 6e4;
const MAX_QUEUED = 1e3;
// Requests when the page is left: the next page sends the rest.
const MAX_LEAVING_REQUESTS = 2;
// How long the next page waits for the response to a request of the previous page, before it resends the events.
const RESEND_AFTER = 3e3;
// The server does not accept older times.
const DAY = 864e5;

// Undefined without a script tag; then v1.js does not start either.
const url = guard(address)();
const prefix = guard(() => 'pharos_q:' + option('site') + ':')();
// Events as JSON, so that a resent event is the same to the byte, and an event that cannot be encoded is lost alone.
let queue = [];
let inFlight = [];
let requests = 0;
let timer = 0;
let failures = 0;

const size = (text) => new Blob([text]).size;

const flushLater = (milliseconds) => {
  timer = timer || setTimeout(flush, milliseconds);
};

// Each event stays in this tab's storage until the server has responded, because a page that was left never learns that
// its request failed. Each event has its own item, so that the documents of a tab (frames, a page in the back/forward
// cache) never overwrite each other's. The item is the time when the event was sent (0: not sent, or failed) and the
// event.
const storageKey = (line) => prefix + line.slice(7, 43);

const store = guard((line, sent) => {
  if (!silent()) sessionStorage[storageKey(line)] = (sent || 0) + line;
});

const remove = guard((line) => {
  delete sessionStorage[storageKey(line)];
});

const isDue = guard((line) => !silent() && Date.now() - new Date(JSON.parse(line).occurred_at) < DAY);

// Returns the events that may still be sent, and removes the others.
const removeExpired = (lines) => lines.filter((line) => isDue(line) || remove(line));

// Queues the events of earlier pages of this tab that got no response within RESEND_AFTER: unsent ones first, then those
// sent longest ago. The server stores an event that it has received before only once, by its ID.
export const restore = guard(() => {
  if (framed) return;
  const known = inFlight.concat(queue);
  let waiting = 0;
  const lines = Object.keys(sessionStorage)
    .filter((key) => key.startsWith(prefix))
    .map((key) => sessionStorage[key])
    .filter((value) => silent() || !(Date.now() - parseInt(value) < RESEND_AFTER && ++waiting))
    .sort((a, b) => parseInt(a) - parseInt(b))
    .map((value) => value.replace(/^\d*/, ''))
    .filter((line) => !known.includes(line));
  queue = queue.concat(removeExpired(lines));
  if (lines.length) flushLater(1);
  if (waiting) setTimeout(restore, RESEND_AFTER);
});

const takeBatch = () => {
  let count = 0;
  let bytes = 0;
  while (count < BATCH && count < queue.length) {
    bytes += size(queue[count]) + 1;
    if (count && bytes > BYTES) break;
    count++;
  }
  return queue.splice(0, count);
};

const limitQueue = () => queue.splice(MAX_QUEUED).forEach(remove);

const send = async (batch) => {
  const body = '{"events":[' + batch + ']}';
  let failed = true;
  let pause = 0;
  inFlight = inFlight.concat(batch);
  batch.forEach((line) => store(line, Date.now()));
  requests++;
  try {
    const response = await fetch(url, {
      method: 'POST',
      body,
      keepalive: size(body) < BYTES + 99,
      credentials: 'omit',
    });
    failed = response.status > 499 || response.status === 408 || response.status === 429;
    pause = Math.min(response.headers.get('Retry-After'), 3600) || 0;
    // Until the response is read, the browser counts this request's body among the 64 KiB.
    await response.text();
  } catch {}
  requests--;
  inFlight = inFlight.filter((line) => !batch.includes(line));
  if (failed) {
    queue = batch.concat(queue);
    batch.forEach((line) => store(line));
    limitQueue();
    clearTimeout(timer);
    timer = 0;
    flushLater(1e3 * Math.max(pause, Math.min(2 ** failures++, 30) * (1 - Math.random() / 4)));
  } else {
    batch.forEach(remove);
    failures = 0;
    if (!timer) flush();
  }
};

// One request at a time, unless the page is being left.
export const flush = (leaving) => {
  clearTimeout(timer);
  timer = 0;
  queue = removeExpired(queue);
  for (let count = 0; queue.length && (leaving ? count++ < MAX_LEAVING_REQUESTS : !requests); ) send(takeBatch());
};

// Queues an event. `wait` of 0 sends it at once, except during an outage.
export const add = (type, path, fields, wait = 1e3) => {
  if (silent()) return;
  const { maxTouchPoints, platform } = navigator;
  const line = JSON.stringify({
    id: identifier(),
    type,
    path: path.slice(0, 2048),
    occurred_at: new Date().toISOString(),
    // An iPad's User-Agent says that it is a Mac.
    device: maxTouchPoints > 1 && platform === 'MacIntel' ? 'Tablet' : undefined,
    ...fields,
    // Half of a surrogate pair, as in a text that a page has truncated, is no Unicode: replace its escape by U+FFFD.
  }).replace(/\\(ud[89a-f]..|.)/g, (escape) => (escape[5] ? '\ufffd' : escape));
  queue.push(line);
  store(line);
  limitQueue();
  if (!failures && (!wait || queue.length >= BATCH)) flush();
  else flushLater(wait);
};
