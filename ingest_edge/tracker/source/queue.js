import { guard } from './guard.js';
import { identifier } from './identifier.js';
import { silent } from './privacy.js';
import { address } from './settings.js';

const KEY = 'pharos_q';
const BATCH = 20;
// Browsers refuse keepalive requests over 64 KiB.
const BYTES = 6e4;

// Nothing without a script tag; then v1.js does not start either.
const url = guard(address)();
// Events as JSON: what is sent again is the same to the byte, and what cannot be written as JSON is lost alone.
let queue = [];
let flying = [];
let requests = 0;
let timer = 0;
let failures = 0;
// Whether this tab's storage holds what is unsent: from a failure on until everything has been sent.
let kept = false;

const size = (text) => new Blob([text]).size;

const later = (milliseconds) => {
  timer = timer || setTimeout(flush, milliseconds);
};

export const save = guard(() => {
  if (!kept) return;
  const lines = flying.concat(queue).slice(-100);
  kept = lines.length > 0;
  if (kept) sessionStorage[KEY] = JSON.stringify([url].concat(lines));
  else delete sessionStorage[KEY];
});

// Takes over what an earlier page of this tab could not send to the same site.
export const restore = guard(() => {
  const lines = JSON.parse(sessionStorage[KEY] || '[]');
  if (lines.shift() !== url) return;
  const known = flying.concat(queue);
  queue = lines.filter((line) => !known.includes(line)).concat(queue);
  kept = true;
  later(1);
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

const send = async (batch) => {
  const body = '{"events":[' + batch + ']}';
  let failed = true;
  let pause = 0;
  flying = flying.concat(batch);
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
    kept = true;
    queue = batch.concat(queue).slice(-200);
    clearTimeout(timer);
    timer = 0;
    later(1e3 * Math.max(pause, Math.min(2 ** failures++, 30) * (1 - Math.random() / 4)));
  } else {
    failures = 0;
    if (!timer) flush();
  }
  save();
};

// One request at a time, unless the page may be gone before its answer.
export const flush = (leaving) => {
  clearTimeout(timer);
  timer = 0;
  if (silent()) queue = [];
  while (queue.length && (leaving || !requests)) send(take());
  save();
};

// `wait` of 0 sends at once; during an outage nothing does.
export const add = (type, path, fields, wait = 1e3) => {
  if (silent()) return;
  const { maxTouchPoints, platform } = navigator;
  queue.push(
    JSON.stringify({
      id: identifier(),
      type,
      path: path.slice(0, 2048),
      occurred_at: new Date().toISOString(),
      // An iPad's User-Agent says that it is a Mac.
      device: maxTouchPoints > 1 && platform === 'MacIntel' ? 'Tablet' : undefined,
      ...fields,
    })
  );
  queue = queue.slice(-200);
  if (!failures && (!wait || queue.length >= BATCH)) flush();
  else later(wait);
  save();
};
