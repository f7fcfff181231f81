// Data of a page: loaded when its inputs change, again when something changes on the server, never shown out of order.
import { onChange, type Topic } from '../live/changes';

export interface Resource<T> {
  /** The newest answer; it stays while the next one loads. Undefined before the first. */
  readonly data: T | undefined;
  /** Why the newest request failed, or undefined. */
  readonly error: unknown;
  /** True until the first answer or error for the present inputs. */
  readonly loading: boolean;
  /** Load again. */
  refresh: () => Promise<void>;
}

/**
 * Return data that `load` fetches. Reactive values that `load` reads before its first `await` are its inputs: when one
 * changes, the running request is aborted and `load` runs again. Call it while a component is created.
 *
 *     const releases = resource((signal) => call(listReleases({ path: { environment }, signal })), ['deployments']);
 *
 * `topics`: load again when one of them changes on the server. Return undefined from `load` to load nothing.
 */
export function resource<T>(
  load: (signal: AbortSignal) => Promise<T> | undefined,
  topics: readonly Topic[] = [],
): Resource<T> {
  let data = $state.raw<T | undefined>(undefined);
  let error = $state.raw<unknown>(undefined);
  let loading = $state(true);
  let running: AbortController | undefined;
  let isAsking = false;
  let again = false;

  /** Load after a change on the server. A request that runs is not begun anew: on a busy account it would never end. */
  function follow(): void {
    if (isAsking) again = true;
    else void run(true);
  }

  async function run(isSilent: boolean): Promise<void> {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    if (!isSilent) loading = true;
    again = false;
    const request = load(mine.signal);
    isAsking = request !== undefined;
    if (request === undefined) {
      loading = false;
      return;
    }
    try {
      const answer = await request;
      if (mine.signal.aborted) return;
      data = answer;
      error = undefined;
    } catch (reason) {
      if (mine.signal.aborted) return;
      error = reason;
    }
    loading = isAsking = false;
    if (again) void run(true);
  }

  $effect(() => {
    void run(false);
    return () => running?.abort();
  });
  $effect(() => (topics.length ? onChange(topics, follow) : undefined));

  return {
    get data() {
      return data;
    },
    get error() {
      return error;
    },
    get loading() {
      return loading;
    },
    refresh: () => run(true),
  };
}
