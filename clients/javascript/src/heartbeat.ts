// Heartbeats: reports the runs of a scheduled job to its ping URL.

import { originalConsole } from './console.js'
import { describeStack } from './exceptions.js'
import { readText } from './responses.js'
import { isTransient, readRetryAfterMs, retryDelayMs } from './retries.js'
import { makeUuid } from './uuids.js'

export interface HeartbeatOptions {
  /** Time limit of a ping with all its retries, in milliseconds. Default: 15,000. */
  timeoutMs?: number
  /** Called if a ping could not be delivered. Default: `console.warn`, once. */
  onError?: (error: Error) => void
  /** The first delay of retries, in milliseconds. Default: 500. */
  retryFirstMs?: number
  /** A replacement of the global `fetch`. */
  fetch?: typeof fetch
}

/** One run of a job. Its pings never throw; they resolve when the ping is delivered or dropped. */
export interface HeartbeatRun {
  /** The UUID that pairs the pings of this run. */
  readonly rid: string
  /** `output` is kept with the run, up to 10 KiB. */
  success(output?: string): Promise<void>
  /** An error is kept as its stack. */
  fail(output?: unknown): Promise<void>
  /** Send a text while the job runs. The heartbeat stores the text. */
  log(text: string): Promise<void>
  /** Report an exit status, 0 to 255: 0 is a success. */
  exit(status: number, output?: string): Promise<void>
}

/** Call it with a job to run the job and report the run; `wrap` returns a function that does so each time. */
export interface Heartbeat {
  <T>(job: () => T | Promise<T>): Promise<T>
  wrap<A extends unknown[], T>(job: (...args: A) => T | Promise<T>): (...args: A) => Promise<T>
  /** Report the start of a run. */
  start(): HeartbeatRun
}

const OUTPUT_BYTES = 10 * 1024
const ATTEMPT_MS = 10_000
const MOST_ATTEMPTS = 6

/**
 * Return the heartbeat of a ping URL: `https://pharos.example/ping/phr_png_…`, with or without a query. Without a URL, as
 * in development, jobs run and nothing is reported.
 */
export function heartbeat(url: string | URL | undefined, options: HeartbeatOptions = {}): Heartbeat {
  const pinger = new Pinger(url, options)
  const start = (): HeartbeatRun => startRun(pinger)
  const run = async <T>(job: () => T | Promise<T>): Promise<T> => {
    const reported = start()
    let result: T
    try {
      result = await job()
    } catch (error) {
      await reported.fail(error)
      throw error
    }
    await reported.success()
    return result
  }
  return Object.assign(run, {
    start,
    wrap:
      <A extends unknown[], T>(job: (...args: A) => T | Promise<T>) =>
      (...args: A): Promise<T> =>
        run(() => job(...args)),
  })
}

function startRun(pinger: Pinger): HeartbeatRun {
  const rid = makeUuid()
  // The job does not wait for this ping. The ping of the result does, so that the pings arrive in order.
  const started = pinger.ping('start', rid)
  const report = async (action: string, output?: string): Promise<void> => {
    await started
    await pinger.ping(action, rid, output)
  }
  return {
    rid,
    log: (text) => report('log', text),
    success: (output) => report('', output),
    fail: (output) => report('fail', typeof output === 'string' || output === undefined ? output : describeStack(output)),
    exit: (status, output) => report(String(Math.min(255, Math.max(0, Math.trunc(status)))), output),
  }
}

class Pinger {
  private readonly url: URL | undefined
  private hasWarned = false

  constructor(
    url: string | URL | undefined,
    private readonly options: HeartbeatOptions,
  ) {
    if (url === undefined || url === '') return
    try {
      this.url = new URL(url)
    } catch {
      this.report(new Error('The ping URL is no URL. Runs are not reported.'))
    }
  }

  /** Report once, with retries. Never throws. */
  async ping(action: string, rid: string, output?: string): Promise<void> {
    if (this.url === undefined) return
    const target = pingUrl(this.url, action, rid)
    const endsAt = Date.now() + (this.options.timeoutMs ?? 15_000)
    let reason = ''
    for (let failures = 1; failures <= MOST_ATTEMPTS; failures += 1) {
      let retryAfterMs = 0
      try {
        const response = await this.send(target, output, Math.min(ATTEMPT_MS, endsAt - Date.now()))
        if (response.ok) return
        reason = `status ${response.status}`
        if (!isTransient(response.status)) break
        retryAfterMs = readRetryAfterMs(response.headers.get('Retry-After'))
      } catch (error) {
        const { message, cause } = error as Error & { cause?: { code?: string } }
        reason = cause?.code ?? message
      }
      const delayMs = retryDelayMs(failures, retryAfterMs, Math.random, this.options.retryFirstMs)
      if (Date.now() + delayMs >= endsAt) break
      // Unlike the client's timers, this one keeps the process alive: a job often is the whole process.
      await new Promise((resolve) => setTimeout(resolve, delayMs))
    }
    // The URL contains the key, so no message contains the URL.
    this.report(new Error(`The ping ${action || 'success'} was not delivered: ${reason}. The job is not affected.`))
  }

  private async send(target: URL, output: string | undefined, timeoutMs: number): Promise<Response> {
    const send = this.options.fetch ?? fetch
    const response = await send(target, {
      method: 'POST',
      signal: AbortSignal.timeout(Math.max(1, timeoutMs)),
      ...(output === undefined ? {} : { body: cutBytes(output), headers: { 'Content-Type': 'text/plain; charset=utf-8' } }),
    })
    await readText(response)
    return response
  }

  private report(error: Error): void {
    try {
      if (this.options.onError !== undefined) this.options.onError(error)
      else if (!this.hasWarned) originalConsole.warn(`pharos-client: ${error.message}`)
      this.hasWarned = true
    } catch {
      // The application's hook must not break the job.
    }
  }
}

/** Return the address of a ping: the action ends the path, and the query of the URL stays. */
export function pingUrl(base: URL, action: string, rid: string): URL {
  const target = new URL(base)
  target.pathname = target.pathname.replace(/\/+$/, '') + (action === '' ? '' : `/${action}`)
  target.searchParams.set('rid', rid)
  return target
}

/**
 * Cut a text at the front, because the end of an output is the most useful part. The front of a stack is its error, so
 * keep some of it.
 */
function cutBytes(output: string): string {
  const bytes = new TextEncoder().encode(output)
  if (bytes.length <= OUTPUT_BYTES) return output
  const decoder = new TextDecoder()
  const head = decoder.decode(bytes.subarray(0, 2048))
  return `${head}\n…\n${decoder.decode(bytes.subarray(bytes.length - (OUTPUT_BYTES - 2048 - 64)))}`
}
