// Lists with `next_cursor`: the first page, and more on demand.
import { onChange, type Topic } from '../live/changes';

/** Pages that are loaded again after a change. */
const MOST_PAGES = 10;

interface PageAnswer<T> {
  data: T[];
  next_cursor?: string | null;
}

export interface Paged<T> {
  /** The items loaded so far; undefined before the first answer. */
  readonly items: T[] | undefined;
  readonly error: unknown;
  readonly loading: boolean;
  readonly hasMore: boolean;
  /** Load the next page and append it. */
  loadMore: () => Promise<void>;
  refresh: () => Promise<void>;
}

/**
 * Return a list that `load` fetches page by page. Reactive values that `load` reads before its first `await` are its
 * inputs: when one changes, the list begins anew.
 *
 *     const people = paged((cursor, signal) => callPage(listPeople({ query: { cursor, limit: 50 }, signal })));
 *
 * `topics`: load the first page again when one of them changes; pages that were added stay until then.
 */
export function paged<T>(
  load: (cursor: string | undefined, signal: AbortSignal) => Promise<PageAnswer<T>> | undefined,
  topics: readonly Topic[] = [],
): Paged<T> {
  let items = $state.raw<T[] | undefined>(undefined);
  let cursor = $state<string | null>(null);
  let error = $state.raw<unknown>(undefined);
  let loading = $state(true);
  let running: AbortController | undefined;
  let isAsking = false;
  let again = false;

  /** Load after a change on the server, as many items as were shown. A request that runs is not begun anew. */
  function follow(): void {
    if (isAsking) again = true;
    else void run(undefined, true);
  }

  /** Return the first pages, until there are as many items as before. */
  async function loadShown(first: Promise<PageAnswer<T>>, shown: number, signal: AbortSignal): Promise<PageAnswer<T>> {
    const found = { ...(await first) };
    for (let page = 1; page < MOST_PAGES && found.next_cursor && found.data.length < shown && !signal.aborted; page += 1) {
      const next = await load(found.next_cursor, signal);
      if (next === undefined) break;
      found.data = [...found.data, ...next.data];
      found.next_cursor = next.next_cursor;
    }
    return found;
  }

  async function run(from: string | undefined, isSilent = false): Promise<void> {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    if (!isSilent) loading = true;
    again = false;
    const request = load(from, mine.signal);
    isAsking = request !== undefined;
    if (request === undefined) {
      loading = false;
      return;
    }
    try {
      const answer = await (isSilent ? loadShown(request, items?.length ?? 0, mine.signal) : request);
      if (mine.signal.aborted) return;
      items = from === undefined ? answer.data : [...(items ?? []), ...answer.data];
      cursor = answer.next_cursor ?? null;
      error = undefined;
    } catch (reason) {
      if (mine.signal.aborted) return;
      error = reason;
    }
    loading = isAsking = false;
    if (again) void run(undefined, true);
  }

  $effect(() => {
    void run(undefined);
    return () => running?.abort();
  });
  $effect(() => (topics.length ? onChange(topics, follow) : undefined));

  return {
    get items() {
      return items;
    },
    get error() {
      return error;
    },
    get loading() {
      return loading;
    },
    get hasMore() {
      return cursor !== null;
    },
    loadMore: async () => {
      if (cursor !== null && !isAsking) await run(cursor);
    },
    refresh: () => run(undefined, true),
  };
}
