// The live tail of logs. It stops in hidden tabs and after 15 minutes; closing it ends the stream, and its queries.
import type { Log } from '../../../../generated/client/types.gen';

const KEPT = 1000;
const LONGEST_MS = 15 * 60_000;

/** A record with its place in the order of arrival. */
export type NumberedLog = Log & { number: number };

export interface LiveTail {
  /** The newest records first. */
  readonly logs: NumberedLog[];
  readonly state: 'connecting' | 'following' | 'stopped';
  /** Why it stopped. */
  readonly reason: string;
  /** Begin again, and keep what was received. */
  start: () => void;
  stop: (reason?: string) => void;
}

/** Return a tail of the records that match the filters. Call `stop` when its component is destroyed. */
export function liveTail(environment: string, filters: Record<string, string | undefined>): LiveTail {
  let logs = $state.raw<NumberedLog[]>([]);
  let received = 0;
  let state = $state<LiveTail['state']>('stopped');
  let reason = $state('');
  let running: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const given = Object.entries(filters).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const address = `/api/v1/environments/${encodeURIComponent(environment)}/logs?${new URLSearchParams(given).toString()}`;
  const hide = () => document.hidden && stop('The tail stopped while this tab was hidden.');

  async function follow(signal: AbortSignal): Promise<void> {
    const response = await fetch(address, { headers: { accept: 'text/event-stream' }, signal });
    if (!response.ok || !response.body) {
      const problem = (await response.json().catch(() => ({}))) as { detail?: string };
      throw new Error(problem.detail ?? `The tail could not be opened (status ${response.status}).`);
    }
    state = 'following';
    let text = '';
    for await (const chunk of decode(response.body, signal)) {
      text += chunk;
      const events = text.split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) receive(event);
    }
  }

  function receive(event: string): void {
    const data = event.split('\n').find((line) => line.startsWith('data: '));
    if (data === undefined) return;
    const { records } = JSON.parse(data.slice(6)) as { records: Log[] };
    const numbered = records.map((log) => ({ ...log, number: (received += 1) }));
    logs = [...numbered.reverse(), ...logs].slice(0, KEPT);
  }

  function start(): void {
    running?.abort();
    clearTimeout(timer);
    const mine = new AbortController();
    running = mine;
    state = 'connecting';
    reason = '';
    timer = setTimeout(() => stop('The tail stopped after 15 minutes.'), LONGEST_MS);
    document.addEventListener('visibilitychange', hide);
    follow(mine.signal).then(
      () => !mine.signal.aborted && stop('The server ended the tail.'),
      (error: unknown) => !mine.signal.aborted && stop(error instanceof Error ? error.message : String(error)),
    );
  }

  function stop(why = ''): void {
    running?.abort();
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', hide);
    state = 'stopped';
    reason = why;
  }

  return {
    get logs() {
      return logs;
    },
    get state() {
      return state;
    },
    get reason() {
      return reason;
    },
    start,
    stop,
  };
}

async function* decode(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  while (!signal.aborted) {
    const { done, value } = await reader.read();
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}
