// One server-sent stream of an operation: it stops while the tab is hidden and after 15 minutes, and can be resumed.

const LONGEST_MS = 15 * 60_000;
// A tab that is hidden for a moment keeps its stream.
const HIDDEN_MS = 20_000;

export type StreamState = 'connecting' | 'open' | 'paused' | 'ended' | 'refused';

export interface Stream {
  readonly state: StreamState;
  /** Why the stream was stopped here, for people; undefined unless `paused`. */
  readonly pausedBecause: string | undefined;
  /** Continue after `paused` or `refused`. */
  resume: () => void;
  /** Stop for good: everything has arrived. */
  end: () => void;
}

/**
 * Follow the events of a stream. `address`: read as an input; undefined follows nothing. `onReset` runs before a stream
 * begins anew, which repeats what it has sent before. Call it while a component is created.
 *
 *     const stream = followStream(() => `/api/v1/deployments/${build}/log`, { line: take, status: read }, clear);
 */
export function followStream(
  address: () => string | undefined,
  events: Record<string, (data: string) => void>,
  onReset: () => void,
): Stream {
  let state = $state<StreamState>('connecting');
  let pausedBecause = $state<string | undefined>(undefined);
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  let present: string | undefined;

  function open(): void {
    close();
    if (present === undefined) return;
    state = 'connecting';
    pausedBecause = undefined;
    onReset();
    const opened = new EventSource(present);
    source = opened;
    opened.onopen = () => {
      if (source === opened) state = 'open';
    };
    opened.onerror = () => {
      // The browser reconnects by itself, and continues, unless the server refused.
      if (source !== opened) return;
      state = opened.readyState === EventSource.CLOSED ? 'refused' : 'connecting';
    };
    for (const [name, take] of Object.entries(events)) {
      opened.addEventListener(name, (event) => {
        if (source === opened) take((event as MessageEvent<string>).data);
      });
    }
    timer = setTimeout(() => pause('It stopped after 15 minutes.'), LONGEST_MS);
  }

  function close(): void {
    clearTimeout(timer);
    clearTimeout(hiddenTimer);
    source?.close();
    source = undefined;
  }

  function pause(reason: string): void {
    if (source === undefined) return;
    close();
    state = 'paused';
    pausedBecause = reason;
  }

  $effect(() => {
    present = address();
    open();
    return close;
  });
  $effect(() => {
    const change = () => {
      clearTimeout(hiddenTimer);
      if (document.hidden) hiddenTimer = setTimeout(() => pause('It stopped while this tab was hidden.'), HIDDEN_MS);
    };
    document.addEventListener('visibilitychange', change);
    return () => document.removeEventListener('visibilitychange', change);
  });

  return {
    get state() {
      return state;
    },
    get pausedBecause() {
      return pausedBecause;
    },
    resume: open,
    end: () => {
      close();
      state = 'ended';
    },
  };
}
