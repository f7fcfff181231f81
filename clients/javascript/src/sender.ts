// Sends batches one after the other, and repeats a batch until the platform has accepted or refused it.

import { type Batch, encodeBatch, readInvalidPositions, splitBatch, withoutEvents } from './batches.js'
import type { EventQueue } from './queue.js'
import { readText } from './responses.js'
import { isTransient, pause, readRetryAfterMs, retryDelayMs, unref } from './retries.js'
import type { Problem, Settings } from './settings.js'
import { makeUuid } from './uuids.js'

/** Counts of events since the start. */
export interface Counts {
  /** Acknowledged by the platform: on its disk. */
  stored: number
  /** Did not fit into the queue. */
  queueFull: number
  /** Larger than an event may be, even when shortened. */
  tooLarge: number
  /** Named as invalid by the platform, or unreadable: `beforeSend` has thrown. */
  invalid: number
  /** In a batch that the platform has refused. */
  refused: number
  /** Left when the client was closed, or added afterwards. */
  unsent: number
  /** Requests that were repeated. */
  retries: number
}

interface Answer {
  status: number
  retryAfterMs: number
  text: string
}

// A key that was just created reaches all edges within a few seconds.
const UNAUTHORIZED_ATTEMPTS = 6

export class Sender {
  readonly counts: Counts = { stored: 0, queueFull: 0, tooLarge: 0, invalid: 0, refused: 0, unsent: 0, retries: 0 }
  /** The batches to send: the first is in flight, and the others follow it. */
  private work: Batch[] = []
  private running: Promise<void> | undefined
  private readonly ended = new AbortController()
  private nextBatch = 1
  /** Events that left the queue for good since the start. */
  private settled = 0
  private readonly prefix = makeUuid()
  private readonly watchers = new Set<() => void>()
  private readonly send: typeof fetch

  constructor(
    private readonly settings: Settings,
    private readonly queue: EventQueue,
    private readonly report: (problem: Problem) => void,
    send: typeof fetch | undefined,
  ) {
    this.send = send ?? ((...request) => fetch(...request))
  }

  /** Events that the platform has neither accepted nor refused. */
  get waiting(): number {
    return this.queue.count + this.work.reduce((sum, batch) => sum + batch.events.length, 0)
  }

  /** Send all waiting events. Does nothing while that is in progress. */
  start(): void {
    if (this.running !== undefined || this.settings.api === undefined) return
    this.running = this.drain().finally(() => {
      this.running = undefined
      this.tellWatchers()
    })
  }

  /**
   * Wait until the events that wait now have left the queue. Return false after `timeoutMs`. Keeps the process alive
   * meanwhile.
   */
  async flush(timeoutMs: number): Promise<boolean> {
    const goal = this.settled + this.waiting
    if (this.waiting === 0) return true
    this.start()
    return new Promise((resolve) => {
      const finish = (isDone: boolean): void => {
        clearTimeout(timer)
        this.watchers.delete(look)
        resolve(isDone)
      }
      const look = (): void => {
        if (this.settled >= goal || this.waiting === 0) finish(true)
      }
      const timer = setTimeout(() => finish(false), timeoutMs)
      this.watchers.add(look)
      look()
    })
  }

  /** Stop sending; waiting events count as unsent. */
  end(): void {
    this.ended.abort()
    this.counts.unsent += this.waiting
    this.settled += this.waiting
    this.work = []
    this.queue.take(Infinity, Infinity)
    this.tellWatchers()
  }

  /** Return all waiting events as batches, without removing them. Batches in flight keep their ID and are stored once. */
  snapshot(): Batch[] {
    const batches = [...this.work]
    for (;;) {
      const batch = this.takeBatch()
      if (batch === undefined) break
      this.work.push(batch)
      batches.push(batch)
    }
    return batches
  }

  private takeBatch(): Batch | undefined {
    const events = this.queue.take(this.settings.maxBatchEvents, this.settings.maxBatchBytes)
    return events.length === 0 ? undefined : { id: this.makeId(), events }
  }

  private makeId(): string {
    return `${this.prefix}-${this.nextBatch++}`
  }

  private async drain(): Promise<void> {
    while (!this.ended.signal.aborted) {
      const batch = this.work[0] ?? this.takeBatch()
      if (batch === undefined) return
      if (this.work.length === 0) this.work.push(batch)
      const rest = await this.deliver(batch)
      if (this.ended.signal.aborted) return
      this.settled += batch.events.length - rest.reduce((sum, part) => sum + part.events.length, 0)
      this.work.splice(0, 1, ...rest)
      this.tellWatchers()
    }
  }

  /** Send a batch until the platform has accepted or refused it. Return the batches that replace it. */
  private async deliver(batch: Batch): Promise<Batch[]> {
    for (let failures = 1; ; failures += 1) {
      const answer = await this.post(batch)
      if (this.ended.signal.aborted) return []
      if (typeof answer !== 'string') {
        const isWaitingForKey = answer.status === 401 && failures < UNAUTHORIZED_ATTEMPTS
        if (!isTransient(answer.status) && !isWaitingForKey) return this.settle(batch, answer)
      }
      if (failures === 2) {
        const reason = typeof answer === 'string' ? answer : `status ${answer.status}`
        this.report({ kind: 'unreachable', message: `Pharos cannot take events now (${reason}). They are sent again.` })
      }
      this.counts.retries += 1
      const retryAfterMs = typeof answer === 'string' ? 0 : answer.retryAfterMs
      await pause(retryDelayMs(failures, retryAfterMs, Math.random, this.settings.retryFirstMs), this.ended.signal)
      if (this.ended.signal.aborted) return []
    }
  }

  /** Return the response, or the reason why there is none. */
  private async post(batch: Batch): Promise<Answer | string> {
    const aborted = new AbortController()
    const abort = (): void => aborted.abort()
    const timer = setTimeout(abort, this.settings.requestTimeoutMs)
    unref(timer)
    this.ended.signal.addEventListener('abort', abort)
    try {
      const body = await encodeBatch(batch)
      const headers: Record<string, string> = {
        Authorization: `Bearer ${this.settings.ingestKey}`,
        'Content-Type': 'application/json',
      }
      if (batch.isCompressed) headers['Content-Encoding'] = 'gzip'
      const response = await this.send(`${this.settings.api}/v1/ingest`, {
        method: 'POST',
        headers,
        body: body as BodyInit,
        // A redirect would turn the POST into a GET.
        redirect: 'manual',
        signal: aborted.signal,
      })
      return {
        status: response.status,
        retryAfterMs: readRetryAfterMs(response.headers.get('Retry-After')),
        text: await readText(response),
      }
    } catch (error) {
      const { message, cause } = error as Error & { cause?: { code?: string } }
      return cause?.code ?? message
    } finally {
      clearTimeout(timer)
      this.ended.signal.removeEventListener('abort', abort)
    }
  }

  private settle(batch: Batch, answer: Answer): Batch[] {
    const count = batch.events.length
    if (answer.status === 202) {
      this.counts.stored += count
      return []
    }
    if (answer.status === 413 && count > 1) return splitBatch(batch, () => this.makeId())
    if (answer.status === 413) {
      this.counts.tooLarge += 1
      this.report({ kind: 'dropped', status: 413, message: `An event was dropped: ${detail(answer)}` })
      return []
    }
    if (answer.status === 422) return this.dropInvalid(batch, answer)
    this.counts.refused += count
    const hint = answer.status === 401 ? 'Check PHAROS_INGEST_KEY.' : 'Check PHAROS_URL.'
    this.report({
      kind: 'refused',
      status: answer.status,
      message: `${count} events were dropped: Pharos returned ${answer.status}. ${hint} ${detail(answer)}`.trim(),
    })
    return []
  }

  private dropInvalid(batch: Batch, answer: Answer): Batch[] {
    const errors = parse(answer.text)?.['errors']
    const positions = readInvalidPositions(errors, batch.events.length)
    // A 422 that names no event refuses the batch.
    const dropped = positions.size || batch.events.length
    this.counts.invalid += dropped
    this.report({
      kind: 'invalid',
      status: 422,
      message: `${dropped} invalid events were dropped. ${describeErrors(errors)}`.trim(),
      ...(Array.isArray(errors) ? { errors: errors as { field: string; message: string }[] } : {}),
    })
    if (positions.size === 0 || positions.size === batch.events.length) return []
    return [withoutEvents(batch, positions, this.makeId())]
  }

  private tellWatchers(): void {
    for (const watcher of [...this.watchers]) watcher()
  }
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
}

function detail(answer: Answer): string {
  return String(parse(answer.text)?.['detail'] ?? '').slice(0, 300)
}

function describeErrors(errors: unknown): string {
  if (!Array.isArray(errors)) return ''
  const [first] = errors as { field?: unknown; message?: unknown }[]
  return first === undefined ? '' : `${first.field}: ${first.message}`
}
