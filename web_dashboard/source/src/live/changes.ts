import { readSession } from '../state/session.svelte';

// Server-sent changes. One tab of the browser holds the stream and passes the changes on to the others: HTTP/1.1 allows
// six connections to a host, and ten open tabs must all stay live.

export type Topic =
  | 'deployments'
  | 'approvals'
  | 'environments'
  | 'previews'
  | 'configuration'
  | 'webhooks'
  | 'heartbeats'
  | 'queues'
  | 'incidents'
  | 'notifications'
  | 'exceptions'
  | 'events'
  | 'pageviews';

interface Listener {
  topics: ReadonlySet<string>;
  run: () => void;
  everyMs: number;
  ranAt: number;
  timer: number | undefined;
}

/** What tabs say to each other: a topic that has changed, which stored topics a tab shows, and a question for these. */
type Message = { changed: string } | { wanted: string[] } | { ask: true } | { session: true };

const BASE: Topic[] = [
  'deployments',
  'approvals',
  'environments',
  'previews',
  'configuration',
  'webhooks',
  'heartbeats',
  'queues',
  'incidents',
  'notifications',
];
// The server looks for changes of these only if somebody shows them: each look costs a query of the column store.
const STORED: Topic[] = ['exceptions', 'events', 'pageviews'];
const LOCK = 'pharos-changes';
// A burst of changes refreshes a page once.
const SETTLE_MS = 150;
// Some topics change every second: a page loads again at most this often.
const EVERY_MS = 2000;
const RETRY_MS = 5000;
// A page loads while its stream opens. What changed in between is loaded this much later, not at once: else each page
// would load twice.
const CATCH_UP_MS = 10_000;
const WAITED_MS = 1000;
// The server says each 15 s that it is there. A proxy or a laptop that slept may have lost the stream without a word.
const SILENT_MS = 45_000;
// Without Web Locks, pages load again so often.
const POLL_MS = 10_000;
// How often the topics that nobody shows any more are left out.
const REVIEW_MS = 60_000;
const ANSWER_MS = 1000;

const listeners = new Set<Listener>();
const wanted = new Set<string>();
let channel: BroadcastChannel | undefined;
let stop: AbortController | undefined;
let reopen: (() => void) | undefined;
let isReviewing = false;

/**
 * Call `run` when one of the topics changes on the server, at most every `everyMs`; in a hidden tab, once it is shown.
 * Returns a function that ends it.
 */
export function onChange(topics: readonly Topic[], run: () => void, everyMs: number = EVERY_MS): () => void {
  const listener: Listener = { topics: new Set<string>(topics), run, everyMs, ranAt: -Infinity, timer: undefined };
  listeners.add(listener);
  const stored = topics.filter((topic) => STORED.includes(topic));
  if (stored.length) {
    channel?.postMessage({ wanted: stored } satisfies Message);
    want(stored);
  }
  return () => {
    listeners.delete(listener);
    clearTimeout(listener.timer);
  };
}

/** Begin to receive changes: call it once somebody is signed in. Returns a function that ends it. */
export function startChanges(): () => void {
  stop = new AbortController();
  const { signal } = stop;
  channel = new BroadcastChannel(LOCK);
  channel.onmessage = (event: MessageEvent<Message>) => hear(event.data);
  document.addEventListener('visibilitychange', runWaiting, { signal });
  void holdStream(signal);
  return () => {
    stop?.abort();
    channel?.close();
    channel = undefined;
  };
}

function hear(message: Message): void {
  if ('changed' in message) deliver(message.changed);
  else if ('session' in message) readSession().catch(() => undefined);
  else if ('wanted' in message) want(message.wanted);
  else if (channel) channel.postMessage({ wanted: ownStored() } satisfies Message);
}

function ownStored(): string[] {
  return STORED.filter((topic) => [...listeners].some((listener) => listener.topics.has(topic)));
}

/** Note stored topics that a tab shows. The tab that holds the stream opens it again if it does not follow them yet. */
function want(topics: string[]): void {
  const known = wanted.size;
  for (const topic of topics) wanted.add(topic);
  if (wanted.size > known && !isReviewing) reopen?.();
}

/** Wait until this tab is the one that holds the stream, then hold it until the tab closes. */
async function holdStream(signal: AbortSignal): Promise<void> {
  if (!('locks' in navigator)) {
    // An address without TLS that is not of this machine has no Web Locks. A stream of each tab would take up the six
    // connections that a browser opens to a host.
    const timer = setInterval(() => document.hidden || [...BASE, ...STORED].forEach(deliver), POLL_MS);
    signal.addEventListener('abort', () => clearInterval(timer));
    return;
  }
  const since = performance.now();
  try {
    // Who had to wait takes over from a tab that was closed.
    await navigator.locks.request(LOCK, { signal }, () => receive(signal, performance.now() - since > WAITED_MS));
  } catch {
    // Aborted: signed out.
  }
}

function receive(signal: AbortSignal, isTakenOver: boolean): Promise<void> {
  return new Promise((resolve) => {
    let source: EventSource | undefined;
    // In the order in which they were opened. An older one tells changes until a newer one does.
    const held = new Set<EventSource>();
    let retry: ReturnType<typeof setTimeout> | undefined;
    let catchUp: ReturnType<typeof setTimeout> | undefined;
    let silence: ReturnType<typeof setTimeout> | undefined;
    const review = setInterval(() => void reviewWanted(), REVIEW_MS);
    const hearSign = () => {
      clearTimeout(silence);
      silence = setTimeout(() => {
        held.forEach((each) => each.close());
        held.clear();
        open(true);
      }, SILENT_MS);
    };
    const open = (isLost = false) => {
      clearTimeout(retry);
      hearSign();
      const topics = [...BASE, ...wanted];
      const mine = new EventSource(`/api/v1/changes?topics=${topics.join(',')}`);
      source = mine;
      held.add(mine);
      let wasLost = isLost;
      mine.onopen = () => {
        for (const older of held) {
          if (older === mine) break;
          older.close();
          held.delete(older);
        }
        // What changed while there was no stream is not known: everything is loaded again.
        if (wasLost) topics.forEach(tell);
        else {
          clearTimeout(catchUp);
          catchUp = setTimeout(() => topics.forEach(tell), CATCH_UP_MS);
        }
        wasLost = true;
      };
      mine.addEventListener('alive', hearSign);
      mine.addEventListener('change', (event) => {
        hearSign();
        const topic = readTopic((event as MessageEvent<string>).data);
        if (topic !== undefined) tell(topic);
      });
      mine.onerror = () => {
        // The browser reconnects by itself unless the server refused; then it waits here.
        if (mine.readyState !== EventSource.CLOSED) return;
        held.delete(mine);
        if (source !== mine) return;
        retry = setTimeout(() => open(true), RETRY_MS);
        // Perhaps somebody has signed out, or switched the account, in another window.
        readSession().catch(() => undefined);
      };
    };
    for (const topic of ownStored()) wanted.add(topic);
    open(isTakenOver);
    reopen = () => open();
    channel?.postMessage({ ask: true } satisfies Message);
    signal.addEventListener('abort', () => {
      reopen = undefined;
      clearInterval(review);
      clearTimeout(silence);
      clearTimeout(retry);
      clearTimeout(catchUp);
      held.forEach((each) => each.close());
      resolve();
    });
  });
}

/** Leave out the stored topics that no tab shows any more. */
async function reviewWanted(): Promise<void> {
  const before = [...wanted].sort().join();
  isReviewing = true;
  wanted.clear();
  for (const topic of ownStored()) wanted.add(topic);
  channel?.postMessage({ ask: true } satisfies Message);
  await new Promise((done) => setTimeout(done, ANSWER_MS));
  isReviewing = false;
  if ([...wanted].sort().join() !== before) reopen?.();
}

/** Let the other tabs ask who is signed in, after a switch of the account. */
export function tellOtherTabs(): void {
  channel?.postMessage({ session: true } satisfies Message);
}

function tell(topic: string): void {
  deliver(topic);
  channel?.postMessage({ changed: topic } satisfies Message);
}

function readTopic(data: string): string | undefined {
  try {
    const topic = (JSON.parse(data) as { topic?: unknown }).topic;
    return typeof topic === 'string' ? topic : undefined;
  } catch {
    return undefined;
  }
}

function deliver(topic: string): void {
  for (const listener of listeners) if (listener.topics.has(topic)) plan(listener);
}

function plan(listener: Listener): void {
  if (listener.timer !== undefined) return;
  const wait = Math.max(SETTLE_MS, listener.ranAt + listener.everyMs - performance.now());
  listener.timer = window.setTimeout(() => {
    // A hidden tab loads once it is shown.
    if (!document.hidden) run(listener);
  }, wait);
}

function run(listener: Listener): void {
  clearTimeout(listener.timer);
  listener.timer = undefined;
  listener.ranAt = performance.now();
  listener.run();
}

function runWaiting(): void {
  if (document.hidden) return;
  for (const listener of listeners) if (listener.timer !== undefined) run(listener);
}
