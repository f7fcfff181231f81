// The client: completes events, queues them, and sends them in batches.

import { activeSpan } from './active_span.js'
import type { Batch } from './batches.js'
import { captureConsole, originalConsole } from './console.js'
import { type Attributes, encodeEvent, type Severity, type TelemetryEvent } from './events.js'
import { describeStack, exceptionEvent } from './exceptions.js'
import { EventQueue } from './queue.js'
import { unref } from './retries.js'
import { type Counts, Sender } from './sender.js'
import {
  type ClientOptions, CONSOLE_SEVERITIES, type ConsoleMethod, type Problem, readSettings, type Settings,
} from './settings.js'

export interface Logger {
  debug(message: string, attributes?: Attributes): void
  info(message: string, attributes?: Attributes): void
  warn(message: string, attributes?: Attributes): void
  error(message: string, attributes?: Attributes): void
  critical(message: string, attributes?: Attributes): void
}

export class Client {
  /** False without a URL and a key: then all calls do nothing. */
  readonly enabled: boolean
  readonly settings: Settings
  readonly log: Logger
  private readonly queue: EventQueue
  private readonly sender: Sender
  private readonly cleanups: (() => void)[] = []
  private readonly warned = new Set<string>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private closing: Promise<boolean> | undefined
  private wasFull = false

  constructor(private readonly options: ClientOptions = {}) {
    const { settings, problem } = readSettings(options)
    this.settings = settings
    this.enabled = settings.api !== undefined
    this.queue = new EventQueue(settings.maxQueueEvents, settings.maxQueueBytes)
    this.sender = new Sender(settings, this.queue, (found) => this.report(found), options.fetch)
    this.log = {
      debug: (message, attributes) => this.addLog('debug', message, attributes),
      info: (message, attributes) => this.addLog('info', message, attributes),
      warn: (message, attributes) => this.addLog('warning', message, attributes),
      error: (message, attributes) => this.addLog('error', message, attributes),
      critical: (message, attributes) => this.addLog('critical', message, attributes),
    }
    if (problem !== undefined) this.report(problem)
    if (this.enabled && options.captureConsole) this.patchConsole(options.captureConsole)
  }

  /** Queue an event. Never throws, and never waits. */
  capture(event: TelemetryEvent): void {
    if (!this.enabled) return
    try {
      const wanted = this.options.beforeSend ? this.options.beforeSend(this.complete(event)) : this.complete(event)
      if (wanted !== null && wanted !== undefined) this.add(wanted)
    } catch (error) {
      this.sender.counts.invalid += 1
      this.report({ kind: 'dropped', message: `An event could not be read: ${String(error)}` })
    }
  }

  /** Queue an exception. The attribute `user.id` counts the users that it affects. */
  captureException(error: unknown, attributes?: Attributes): void {
    if (this.enabled) this.capture(exceptionEvent(error, attributes))
  }

  /** Send all waiting events. Return whether the platform has accepted or refused all of them within `timeoutMs`. */
  async flush(timeoutMs: number = 10_000): Promise<boolean> {
    return this.enabled ? this.sender.flush(timeoutMs) : true
  }

  /**
   * Send all waiting events, then end the client: later events are counted as unsent. Return whether all was sent.
   * Another call waits for the first one, within the time of that one, and returns the same.
   */
  close(timeoutMs: number = 10_000): Promise<boolean> {
    return (this.closing ??= this.end(timeoutMs))
  }

  /** Counts of events since the start, and the number of waiting events. */
  stats(): Counts & { waiting: number } {
    return { ...this.sender.counts, waiting: this.sender.waiting }
  }

  /** Call a function when the client has ended. */
  onClose(cleanup: () => void): void {
    this.cleanups.push(cleanup)
  }

  /** Return the waiting events, for a last attempt at the end of the process. */
  unsentBatches(): Batch[] {
    return this.sender.snapshot()
  }

  private async end(timeoutMs: number): Promise<boolean> {
    clearTimeout(this.timer)
    const isDone = await this.flush(timeoutMs)
    this.sender.end()
    // Not earlier: if the process ends during the flush, these handlers send the remaining events.
    for (const cleanup of this.cleanups.splice(0)) cleanup()
    return isDone
  }

  private addLog(severity: Severity, message: string, attributes?: Attributes): void {
    if (!this.enabled) return
    const event: TelemetryEvent = { type: 'log', severity, title: String(message) }
    if (attributes !== undefined) {
      event.attributes = attributes
      const { error } = attributes
      if (error instanceof Error) event.details = describeStack(error)
    }
    this.capture(event)
  }

  private complete(event: TelemetryEvent): TelemetryEvent {
    const { environment, release, service } = this.settings
    const attributes: Attributes = {
      ...(environment === undefined ? {} : { 'deployment.environment.name': environment }),
      ...(release === undefined ? {} : { 'service.version': release }),
      ...event.attributes,
    }
    return {
      timestamp: new Date().toISOString(),
      ...(service === undefined ? {} : { service }),
      ...(event.trace_id === undefined ? activeSpan() : {}),
      ...event,
      ...(Object.keys(attributes).length === 0 ? {} : { attributes }),
    }
  }

  private add(event: TelemetryEvent): void {
    const { counts } = this.sender
    if (this.closing !== undefined) {
      counts.unsent += 1
      return
    }
    const encoded = encodeEvent(event)
    if (encoded === undefined) {
      counts.tooLarge += 1
      this.report({ kind: 'dropped', message: 'An event was dropped: it is larger than 256 KiB.' })
      return
    }
    const isAdded = this.queue.add(encoded)
    if (!isAdded) counts.queueFull += 1
    if (!isAdded && !this.wasFull) {
      this.report({ kind: 'dropped', message: `Events are dropped: ${this.queue.count} wait to be sent.` })
    }
    this.wasFull = !isAdded
    this.schedule()
  }

  private schedule(): void {
    const { maxBatchEvents, maxBatchBytes, flushIntervalMs } = this.settings
    if (this.queue.count >= maxBatchEvents || this.queue.bytes >= maxBatchBytes) {
      this.sender.start()
    } else if (this.timer === undefined) {
      this.timer = setTimeout(() => {
        this.timer = undefined
        this.sender.start()
      }, flushIntervalMs)
      unref(this.timer)
    }
  }

  private report(problem: Problem): void {
    try {
      if (this.options.onError !== undefined) {
        this.options.onError(problem)
      } else if (!this.warned.has(problem.kind)) {
        this.warned.add(problem.kind)
        originalConsole.warn(`pharos-client: ${problem.message}`)
      }
    } catch {
      // The application's hook must not break the caller of the client.
    }
  }

  private patchConsole(wanted: true | ConsoleMethod[]): void {
    const methods = wanted === true ? (Object.keys(CONSOLE_SEVERITIES) as ConsoleMethod[]) : wanted
    this.onClose(
      captureConsole(methods, (severity, title, details) => {
        this.capture({ type: 'log', severity, title, ...(details === undefined ? {} : { details }) })
      }),
    )
  }
}
