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

type Listener = { topics: ReadonlySet<string>; run: () => void };

const LOCK = 'pharos-changes';
// A burst of changes refreshes a page once.
const SETTLE_MS = 150;
const RETRY_MS = 5000;

const listeners = new Set<Listener>();
const waiting = new Map<Listener, number>();
let channel: BroadcastChannel | undefined;
let stop: AbortController | undefined;

/** Call `run` when one of the topics changes on the server. Returns a function that ends it. */
export function onChange(topics: readonly Topic[], run: () => void): () => void {
  const listener = { topics: new Set<string>(topics), run };
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    clearTimeout(waiting.get(listener));
    waiting.delete(listener);
  };
}

/** Begin to receive changes: call it once somebody is signed in. Returns a function that ends it. */
export function startChanges(): () => void {
  stop = new AbortController();
  const { signal } = stop;
  channel = new BroadcastChannel(LOCK);
  channel.onmessage = (event: MessageEvent<string>) => deliver(event.data);
  void holdStream(signal);
  return () => {
    stop?.abort();
    channel?.close();
    channel = undefined;
  };
}

/** Wait until this tab is the one that holds the stream, then hold it until the tab closes. */
async function holdStream(signal: AbortSignal): Promise<void> {
  if (!('locks' in navigator)) {
    // An address without TLS that is not of this machine has no Web Locks: each tab has a stream of its own.
    await receive(signal);
    return;
  }
  try {
    await navigator.locks.request(LOCK, { signal }, () => receive(signal));
  } catch {
    // Aborted: signed out.
  }
}

function receive(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let source: EventSource | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      source = new EventSource('/api/v1/changes');
      source.addEventListener('change', (event) => {
        const topic = readTopic((event as MessageEvent<string>).data);
        if (topic === undefined) return;
        deliver(topic);
        channel?.postMessage(topic);
      });
      source.onerror = () => {
        // The browser reconnects by itself unless the server refused; then it waits here.
        if (source?.readyState !== EventSource.CLOSED) return;
        retry = setTimeout(open, RETRY_MS);
      };
    };
    open();
    signal.addEventListener('abort', () => {
      clearTimeout(retry);
      source?.close();
      resolve();
    });
  });
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
  for (const listener of listeners) {
    if (!listener.topics.has(topic) || waiting.has(listener)) continue;
    const timer = window.setTimeout(() => {
      waiting.delete(listener);
      listener.run();
    }, SETTLE_MS);
    waiting.set(listener, timer);
  }
}
