import { guard } from './guard.js';
import { identifier } from './identifier.js';
import { silent } from './privacy.js';
import { address, framed, option } from './settings.js';

const BATCH = 20;
// Browsers refuse keepalive requests over 64 KiB.
const BYTES = 6e4;
const MOST = 1e3;
// Requests of a page that leaves: the next page sends the rest.
const LAST = 2;
// How long the answer to a page that has left may take before the next page sends its events again.
const PATIENCE = 3e3;
// The server takes no older time.
const DAY = 864e5;

// Nothing without a script tag; then v1.js does not start either.
const url = guard(address)();
const prefix = guard(() => 'pharos_q:' + option('site') + ':')();
// Events as JSON: what is sent again is the same to the byte, and what cannot be written as JSON is lost alone.
let queue = [];
let flying = [];
let requests = 0;
let timer = 0;
let failures = 0;

const size = (text) => new Blob([text]).size;

const later = (milliseconds) => {
  timer = timer || setTimeout(flush, milliseconds);
};

// Each event lies in this tab's storage until the server has answered: a page that has left never learns that its request
// was refused or failed. An item an event, so that the documents
// of a tab (frames, a page in the back/forward cache) never overwrite each other's. Before the event stands when it was
// sent, 0 if it was not or that has failed.
const item = (line) => prefix + line.slice(7, 43);

const keep = guard((line, sent) => {
  if (!silent()) sessionStorage[item(line)] = (sent || 0) + line;
});

const forget = guard((line) => {
  delete sessionStorage[item(line)];
});

const isDue = guard((line) => !silent() && Date.now() - new Date(JSON.parse(line).occurred_at) < DAY);

// Those that may still be sent; the others are forgotten.
const sift = (lines) => lines.filter((line) => isDue(line) || forget(line));

// Takes over what earlier pages of this tab have no answer for, once that can hardly be on its way: first what was never
// sent, then what was sent longest ago. What has arrived after all is stored once, by its ID.
export const restore = guard(() => {
  if (framed) return;
  const known = flying.concat(queue);
  let waiting = 0;
  const lines = Object.keys(sessionStorage)
    .filter((key) => key.startsWith(prefix))
    .map((key) => sessionStorage[key])
    .filter((value) => silent() || !(Date.now() - parseInt(value) < PATIENCE && ++waiting))
    .sort((a, b) => parseInt(a) - parseInt(b))
    .map((value) => value.replace(/^\d*/, ''))
    .filter((line) => !known.includes(line));
  queue = queue.concat(sift(lines));
  if (lines.length) later(1);
  if (waiting) setTimeout(restore, PATIENCE);
});

const take = () => {
  let count = 0;
  let bytes = 0;
  while (count < BATCH && count < queue.length) {
    bytes += size(queue[count]) + 1;
    if (count && bytes > BYTES) break;
    count++;
  }
  return queue.splice(0, count);
};

const limit = () => queue.splice(MOST).forEach(forget);

const send = async (batch) => {
  const body = '{"events":[' + batch + ']}';
  let failed = true;
  let pause = 0;
  flying = flying.concat(batch);
  batch.forEach((line) => keep(line, Date.now()));
  requests++;
  try {
    const answer = await fetch(url, {
      method: 'POST',
      body,
      keepalive: size(body) < BYTES + 99,
      credentials: 'omit',
    });
    failed = answer.status > 499 || answer.status === 408 || answer.status === 429;
    pause = Math.min(answer.headers.get('Retry-After'), 3600) || 0;
    // Until it has been read, the browser counts this request's body among the 64 KiB.
    await answer.text();
  } catch {}
  requests--;
  flying = flying.filter((line) => !batch.includes(line));
  if (failed) {
    queue = batch.concat(queue);
    batch.forEach((line) => keep(line));
    limit();
    clearTimeout(timer);
    timer = 0;
    later(1e3 * Math.max(pause, Math.min(2 ** failures++, 30) * (1 - Math.random() / 4)));
  } else {
    batch.forEach(forget);
    failures = 0;
    if (!timer) flush();
  }
};

// One request at a time, unless the page may be gone before its answer.
export const flush = (leaving) => {
  clearTimeout(timer);
  timer = 0;
  queue = sift(queue);
  for (let count = 0; queue.length && (leaving ? count++ < LAST : !requests); ) send(take());
};

// `wait` of 0 sends at once; during an outage nothing does.
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
    // Half of a surrogate pair, where a page has cut a text, is no Unicode: JSON has it as an escape of six characters.
  }).replace(/\\(ud[89a-f]..|.)/g, (escape) => (escape[5] ? '\ufffd' : escape));
  queue.push(line);
  keep(line);
  limit();
  if (!failures && (!wait || queue.length >= BATCH)) flush();
  else later(wait);
};
