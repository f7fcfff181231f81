// Delivers reports of queues and workers, with the key of the queue.

import { originalConsole } from './console.js'
import { readText } from './responses.js'
import { isTransient, pause, readRetryAfterMs, retryDelayMs, unref } from './retries.js'
import { readVariable, splitUrl } from './settings.js'

export interface MonitorOptions {
  /**
   * The number and the key of the queue in Pharos, `2:phr_mon_…`. Default: the entry of the queue in `PHAROS_QUEUES`,
   * which is `mail=2:phr_mon_…,default=1:phr_mon_…`.
   */
  monitor?: string
  /** The address of Pharos, with or without `/api`. Default: `PHAROS_URL`. */
  url?: string
  /** Called for each report that was dropped. Default: `console.warn`, once. */
  onError?: (error: Error) => void
  /** The first delay of retries, in milliseconds. Default: 500. */
  retryFirstMs?: number
  /** A replacement of the global `fetch`. */
  fetch?: typeof fetch
}

/** The root of the API, the number of a queue, and a key of it. */
export interface QueueMonitor {
  api: string
  number: string
  key: string
}

/**
 * Return the queue of Pharos for the reports of a queue; undefined if none is configured, as in development. Raises
 * `TypeError`, without keys in its message.
 */
export function readMonitor(name: string, options: MonitorOptions): QueueMonitor | undefined {
  const url = options.url ?? readVariable('PHAROS_URL')
  const text = options.monitor ?? readVariable('PHAROS_QUEUES')
  if (text === undefined) return undefined
  if (url === undefined) throw new TypeError('PHAROS_URL is not set')
  const entry = options.monitor ?? findEntry(text, name)
  if (entry === undefined) throw new TypeError('PHAROS_QUEUES has no entry for it')
  const found = /^(\d+):([\x21-\x7e]+)$/.exec(entry.trim())
  if (found === null) throw new TypeError('NUMBER:KEY of its monitor is expected, as 2:phr_mon_…')
  return { api: splitUrl(url).api, number: found[1] as string, key: found[2] as string }
}

function findEntry(queues: string, name: string): string | undefined {
  for (const entry of queues.split(',')) {
    const at = entry.indexOf('=')
    if (at >= 0 && entry.slice(0, at).trim() === name) return entry.slice(at + 1)
  }
  return undefined
}

export type Report = Readonly<Record<string, string | number>>

const REQUEST_MS = 10_000
// A key that was just created reaches all edges within a few seconds.
const UNAUTHORIZED_ATTEMPTS = 5
let hasWarned = false

/** Sends reports one after the other. The oldest of more than `most` waiting reports are dropped. */
export class ReportSender {
  private readonly waiting: Report[] = []
  private readonly ended = new AbortController()
  private readonly monitor: QueueMonitor | undefined
  private running: Promise<void> | undefined

  constructor(
    private readonly name: string,
    private readonly options: MonitorOptions,
    private readonly resource: 'snapshots' | 'workers',
    private readonly most: number,
  ) {
    try {
      this.monitor = readMonitor(name, options)
    } catch (error) {
      this.tell(`The queue ${name} is not reported: ${(error as Error).message}.`)
    }
  }

  /** False without a monitor: then reports are dropped. */
  get isEnabled(): boolean {
    return this.monitor !== undefined
  }

  /** The address of the reports, without the key; empty without a monitor. */
  get address(): string {
    return this.monitor === undefined ? '' : `${this.monitor.api}/v1/queues/${this.monitor.number}/${this.resource}`
  }

  add(report: Report): void {
    if (this.monitor === undefined || this.ended.signal.aborted) return
    // The first report may be in flight.
    if (this.waiting.length > this.most) this.waiting.splice(1, 1)
    this.waiting.push(report)
    this.running ??= this.drain(this.monitor).finally(() => {
      this.running = undefined
    })
  }

  /** Wait until all reports are delivered, or drop them after `timeoutMs`. Ends the sender. */
  async close(timeoutMs: number): Promise<void> {
    const timer = setTimeout(() => this.ended.abort(), timeoutMs)
    await this.running
    clearTimeout(timer)
    this.ended.abort()
  }

  private async drain(monitor: QueueMonitor): Promise<void> {
    for (let failures = 0; this.waiting.length > 0 && !this.ended.signal.aborted; ) {
      const report = this.waiting[0] as Report
      const outcome = await this.post(monitor, report, failures)
      if (typeof outcome === 'number') {
        failures += 1
        await pause(retryDelayMs(failures, outcome, Math.random, this.options.retryFirstMs), this.ended.signal)
        continue
      }
      if (outcome !== '') this.tell(`A report of the queue ${this.name} was dropped: ${outcome}`)
      failures = 0
      this.waiting.shift()
    }
  }

  /**
   * Return '' once the report is stored, the reason if it never will be, or the milliseconds that the platform asks to
   * wait.
   */
  private async post(monitor: QueueMonitor, report: Report, failures: number): Promise<string | number> {
    const aborted = new AbortController()
    const abort = (): void => aborted.abort()
    const timer = setTimeout(abort, REQUEST_MS)
    unref(timer)
    this.ended.signal.addEventListener('abort', abort)
    try {
      const response = await (this.options.fetch ?? fetch)(this.address, {
        method: 'POST',
        headers: { Authorization: `Bearer ${monitor.key}`, 'Content-Type': 'application/json' },
        body: JSON.stringify(report),
        redirect: 'manual',
        signal: aborted.signal,
      })
      const text = await readText(response)
      if (response.status === 202) return ''
      const isWaitingForKey = response.status === 401 && failures < UNAUTHORIZED_ATTEMPTS
      if (isTransient(response.status) || isWaitingForKey) return readRetryAfterMs(response.headers.get('Retry-After'))
      return `Pharos returned ${response.status}. ${text.slice(0, 300)}`
    } catch {
      return 0
    } finally {
      clearTimeout(timer)
      this.ended.signal.removeEventListener('abort', abort)
    }
  }

  private tell(message: string): void {
    try {
      if (this.options.onError !== undefined) this.options.onError(new Error(message))
      else if (!hasWarned) originalConsole.warn(`pharos-client: ${message}`)
      hasWarned = true
    } catch {
      // The application's hook must not break its queue.
    }
  }
}
