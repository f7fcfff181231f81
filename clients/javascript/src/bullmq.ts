// BullMQ: reports the figures of a queue, and the states of its workers.

import { createHash } from 'node:crypto'
import { type MonitorOptions, ReportSender } from './monitor_reports.js'
import { unref } from './retries.js'
import { makeUuid } from './uuids.js'
import { claimSlot, type Slot } from './worker_slots.js'

export type { MonitorOptions } from './monitor_reports.js'

/** The members of a BullMQ `Queue` that the adapter uses. */
export interface QueueLike {
  readonly name: string
  getJobCounts(...types: never[]): Promise<Record<string, number>>
  getJobs(types: never, start?: number, end?: number, asc?: boolean): Promise<(JobLike | undefined)[]>
}

/** The members of a BullMQ `Job` that the adapter uses. Times are milliseconds since 1970. */
export interface JobLike {
  id?: string | undefined
  timestamp: number
  processedOn?: number | undefined
  opts?: { delay?: number | undefined }
}

/** The members of a BullMQ `Worker` that the adapter uses. */
export interface WorkerLike {
  readonly name: string
  on(event: never, listener: (...values: never[]) => void): unknown
  off(event: never, listener: (...values: never[]) => void): unknown
}

export interface QueueOptions extends MonitorOptions {
  /** Time between two snapshots, in milliseconds. Default: 15,000. */
  intervalMs?: number
}

export interface WorkerOptions extends MonitorOptions {
  /**
   * Identifies the worker over restarts: a UUID, or any text that no other worker of the queue has. Default: its machine or
   * container, and its number there, which a restarted worker gets again. Where that is not known (see `claimSlot`), each
   * start is a new worker, and one that was killed shows as lost next to its successor.
   */
  workerId?: string
}

/** Reporting that can be ended. */
export interface Watch {
  /** Deliver the waiting reports, for at most `timeoutMs` (default 5,000), and end the reporting. */
  close(timeoutMs?: number): Promise<void>
}

const WAITING = ['waiting', 'prioritized', 'paused']
const COUNTED = [...WAITING, 'active', 'delayed', 'failed', 'waiting-children']
// An hour of snapshots at the default interval.
const MOST_SNAPSHOTS = 240
// A worker counts as lost after five minutes without a report.
const ALIVE_MS = 60_000
// Short jobs of a busy worker are reported in samples.
const SHORTEST_GAP_MS = 200

/**
 * Report the figures of a queue, now and at every interval: `pending` is waiting and prioritized jobs, `reserved` active
 * ones, `delayed` delayed ones and parents that wait for children. Snapshots of up to an hour without Pharos are sent later.
 */
export function watchQueue(queue: QueueLike, options: QueueOptions = {}): Watch {
  const sender = new ReportSender(queue.name, options, 'snapshots', MOST_SNAPSHOTS)
  let isReading = false
  let isClosed = false

  async function observe(): Promise<void> {
    // Without Redis, BullMQ waits for the connection.
    if (isReading) return
    isReading = true
    try {
      const now = Date.now()
      const [counts, oldest] = await Promise.all([
        queue.getJobCounts(...(COUNTED as never[])),
        queue.getJobs(WAITING as never, 0, 0, true),
      ])
      if (!isClosed) sender.add(snapshotOf(counts, oldest, now))
    } catch {
      // Redis is away: the next interval tries again.
    } finally {
      isReading = false
    }
  }

  let timer: ReturnType<typeof setInterval> | undefined
  if (sender.isEnabled) {
    void observe()
    timer = setInterval(() => void observe(), Math.max(1000, options.intervalMs ?? 15_000))
    unref(timer)
  }
  return {
    close: (timeoutMs = 5000) => {
      isClosed = true
      clearInterval(timer)
      return sender.close(timeoutMs)
    },
  }
}

/** Return the snapshot of these counts. `oldest`: the oldest waiting jobs of each kind. `now`: milliseconds since 1970. */
export function snapshotOf(
  counts: Readonly<Record<string, number>>,
  oldest: readonly (JobLike | undefined)[],
  now: number,
): Record<string, string | number> {
  const sum = (...types: string[]): number => types.reduce((total, type) => total + (counts[type] ?? 0), 0)
  const waits = oldest.map((job) => (job === undefined ? 0 : now - waitsSince(job)))
  return {
    snapshot_id: makeUuid(),
    observed_at: new Date(now).toISOString(),
    pending: sum(...WAITING),
    delayed: sum('delayed', 'waiting-children'),
    reserved: sum('active'),
    failed: sum('failed'),
    oldest_wait_seconds: Math.floor(Math.max(0, ...waits) / 1000),
  }
}

/** A delayed job waits from the end of its delay, a repeated job from its last attempt. */
function waitsSince(job: JobLike): number {
  return Math.max(job.timestamp + (job.opts?.delay ?? 0), job.processedOn ?? 0)
}

let lastSequence = 0

/**
 * Return a number above all earlier ones: of this process, whose next worker may get the ID of one that has just ended, and
 * of earlier processes, as long as the clock is not set back.
 */
function nextSequence(): number {
  lastSequence = Math.max(lastSequence + 1, Date.now() * 1000)
  return lastSequence
}

/** Report what a worker does: idle, busy with a job, or stopped when it is closed. */
export function watchWorker(worker: WorkerLike, options: WorkerOptions = {}): Watch {
  // Only the newest state is needed, so at most one report is in flight and one waits.
  const sender = new ReportSender(worker.name, options, 'workers', 1)
  let workerId = options.workerId === undefined ? undefined : toUuid(`worker:${options.workerId}`, options.workerId)
  let slot: Slot | undefined
  const active = new Map<JobLike, string>()
  let status: 'running' | 'stopped' = 'running'
  let gap: ReturnType<typeof setTimeout> | undefined
  let hasChanged = false

  function report(): void {
    if (workerId === undefined) return
    // The newest job: each job is reported at least once, even if others still run.
    const job = [...active.values()].at(-1)
    const state = status === 'stopped' ? 'stopped' : job === undefined ? 'idle' : 'busy'
    sender.add({ worker_id: workerId, sequence: nextSequence(), status: state, ...(state === 'busy' ? { job_id: job as string } : {}) })
  }

  function change(): void {
    if (gap !== undefined && status !== 'stopped') {
      hasChanged = true
      return
    }
    report()
    clearTimeout(gap)
    gap = setTimeout(() => {
      gap = undefined
      if (hasChanged && status !== 'stopped') {
        hasChanged = false
        change()
      }
    }, SHORTEST_GAP_MS)
    unref(gap)
  }

  const begin = (job: JobLike): void => {
    active.set(job, toUuid(`job:${worker.name}:${job.id}:${job.timestamp}`))
    change()
  }
  const end = (job: JobLike): void => {
    if (active.delete(job)) change()
  }
  const stop = (): void => {
    status = 'stopped'
    clearInterval(alive)
    change()
  }

  async function identify(): Promise<void> {
    if (workerId !== undefined) return change()
    slot = await claimSlot(sender.address)
    workerId = slot === undefined ? makeUuid() : toUuid(`worker:${slot.name}`)
    change()
  }

  let alive: ReturnType<typeof setInterval> | undefined
  let identified: Promise<void> | undefined
  let forget: (() => void) | undefined
  if (sender.isEnabled) {
    forget = observeJobs(worker, begin, end)
    worker.on('closed' as never, stop)
    identified = identify()
    alive = setInterval(report, ALIVE_MS)
    unref(alive)
  }
  return {
    close: async (timeoutMs = 5000) => {
      forget?.()
      worker.off('closed' as never, stop)
      await identified
      if (status !== 'stopped') stop()
      await sender.close(timeoutMs)
      slot?.release()
    },
  }
}

type Process = (job: JobLike, ...rest: unknown[]) => Promise<unknown>

/**
 * Call `begin` and `end` for each job that a worker processes. Return a function that ends this. BullMQ emits nothing when
 * a job ends whose lock was lost, or that is put off: its method that processes a job is what tells all ends.
 */
function observeJobs(worker: WorkerLike, begin: (job: JobLike) => void, end: (job: JobLike) => void): () => void {
  const inner = worker as { processJob?: Process }
  const original = inner.processJob
  if (original === undefined) return observeEvents(worker, begin, end)
  const observed: Process = async (job, ...rest) => {
    begin(job)
    try {
      return await original.call(worker, job, ...rest)
    } finally {
      end(job)
    }
  }
  inner.processJob = observed
  return () => {
    // Another library may have replaced the method meanwhile, and calls this one.
    if (inner.processJob === observed) inner.processJob = original
  }
}

/** The same for a version of BullMQ without that method. */
function observeEvents(worker: WorkerLike, begin: (job: JobLike) => void, end: (job: JobLike) => void): () => void {
  // A stalled job fails without its data.
  const endKnown = (job: JobLike | undefined): void => void (job !== undefined && end(job))
  const listeners = Object.entries({ active: begin, completed: endKnown, failed: endKnown })
  for (const [event, listener] of listeners) worker.on(event as never, listener as never)
  return () => {
    for (const [event, listener] of listeners) worker.off(event as never, listener as never)
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const NAMESPACE = '5f2c6f0e-8f0e-4f0b-9d0c-6b1d3f0a7c11'

/** Return `text` if it is a UUID, else the UUID of `name` (version 5, RFC 9562): the same one for the same name. */
export function toUuid(name: string, text: string = name): string {
  if (UUID.test(text)) return text.toLowerCase()
  const hash = createHash('sha1').update(Buffer.from(NAMESPACE.replaceAll('-', ''), 'hex')).update(name).digest()
  hash[6] = ((hash[6] as number) & 0x0f) | 0x50
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80
  const hex = hash.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-')
}
