// The repetition of requests.

const FIRST_MS = 500
const LONGEST_MS = 30_000
const LONGEST_RETRY_AFTER_MS = 300_000

/**
 * Return the wait before the next attempt, in milliseconds: exponential with jitter, and never less than the
 * server's `Retry-After`. `failures` is the number of failed attempts, from 1.
 */
export function retryDelayMs(
  failures: number,
  retryAfterMs: number = 0,
  random: () => number = Math.random,
  firstMs: number = FIRST_MS,
): number {
  const whole = Math.min(LONGEST_MS, firstMs * 2 ** Math.min(failures - 1, 20))
  const jittered = whole / 2 + (random() * whole) / 2
  return retryAfterMs > 0 ? Math.min(retryAfterMs, LONGEST_RETRY_AFTER_MS) + random() * Math.min(1000, whole) : jittered
}

/** Read a `Retry-After`, in seconds or as a date. Return milliseconds; 0 if there is none. */
export function readRetryAfterMs(header: string | null, now: number = Date.now()): number {
  if (header === null || header.trim() === '') return 0
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - now
  return ms > 0 ? ms : 0
}

/** True for statuses after which the same request may succeed. */
export function isTransient(status: number): boolean {
  return status === 408 || status === 429 || status >= 500
}

/** Wait without keeping the process alive. `signal` ends the wait early. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    unref(timer)
    function done(): void {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    if (signal?.aborted) done()
    else signal?.addEventListener('abort', done)
  })
}

/** Let the process end although this timer is set. Timers of browsers have no such function. */
export function unref(timer: unknown): void {
  ;(timer as { unref?: () => void }).unref?.()
}
