// Delivers reports of queues and workers, with the key of the queue.

import { originalConsole } from './console.js'
import { isTransient, pause, readRetryAfterMs, retryDelayMs, unref } from './retries.js'
import { apiRoot, readVariable } from './settings.js'

/** The queue in Pharos that reports are about. `pharos queue create NAME` shows its ID and its key. */
export interface QueueMonitor {
  /** The ID of the queue. */
  id: number | string
  /** A monitor key of the queue, `phr_mon_…`. */
  key: string | undefined
  /** The address of Pharos, with or without `/api`. Default: `PHAROS_URL`. */
  url?: string
  /** Called for each report that was dropped. Default: `console.warn`, once. */
  onError?: (error: Error) => void
  /** A replacement of the global `fetch`. */
  fetch?: typeof fetch
}

export type Report = Readonly<Record<string, string | number>>

const REQUEST_MS = 10_000
let hasWarned = false

/** Sends reports one after the other. The oldest of more than `most` waiting reports are dropped. */
export class ReportSender {
  private readonly waiting: Report[] = []
  private readonly ended = new AbortController()
  private readonly address: string | undefined
  private running: Promise<void> | undefined

  constructor(
    private readonly monitor: QueueMonitor,
    resource: 'snapshots' | 'workers',
    private readonly most: number,
  ) {
    const url = monitor.url ?? readVariable('PHAROS_URL')
    if (url === undefined && !monitor.key) return
    try {
      if (url === undefined || !monitor.key) throw new TypeError('PHAROS_URL or the key of the queue is not set')
      this.address = `${apiRoot(url)}/v1/queues/${encodeURIComponent(String(monitor.id))}/${resource}`
    } catch (error) {
      this.tell(`Queue ${monitor.id} is not reported: ${(error as Error).message}.`)
    }
  }

  /** False without an address and a key: then reports are dropped. */
  get isEnabled(): boolean {
    return this.address !== undefined
  }

  add(report: Report): void {
    if (this.address === undefined || this.ended.signal.aborted) return
    // The first report may be in flight.
    if (this.waiting.length > this.most) this.waiting.splice(1, 1)
    this.waiting.push(report)
    this.running ??= this.drain(this.address).finally(() => {
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

  private async drain(address: string): Promise<void> {
    for (let failures = 0; this.waiting.length > 0 && !this.ended.signal.aborted; ) {
      const report = this.waiting[0] as Report
      const outcome = await this.post(address, report)
      if (typeof outcome === 'number') {
        failures += 1
        await pause(retryDelayMs(failures, outcome), this.ended.signal)
        continue
      }
      if (outcome !== '') this.tell(`A report of queue ${this.monitor.id} was dropped: ${outcome}`)
      failures = 0
      this.waiting.shift()
    }
  }

  /** Return '' once the report is stored, why it never will be, or the milliseconds that the platform asks to wait. */
  private async post(address: string, report: Report): Promise<string | number> {
    const aborted = new AbortController()
    const abort = (): void => aborted.abort()
    const timer = setTimeout(abort, REQUEST_MS)
    unref(timer)
    this.ended.signal.addEventListener('abort', abort)
    try {
      const response = await (this.monitor.fetch ?? fetch)(address, {
        method: 'POST',
        headers: { Authorization: `Bearer ${this.monitor.key}`, 'Content-Type': 'application/json' },
        body: JSON.stringify(report),
        redirect: 'manual',
        signal: aborted.signal,
      })
      const text = await response.text()
      if (response.status === 202) return ''
      if (isTransient(response.status)) return readRetryAfterMs(response.headers.get('Retry-After'))
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
      if (this.monitor.onError !== undefined) this.monitor.onError(new Error(message))
      else if (!hasWarned) originalConsole.warn(`pharos-client: ${message}`)
      hasWarned = true
    } catch {
      // The application's hook must not break its queue.
    }
  }
}
