// Options of the client, and the environment variables that replace them.

import type { Severity, TelemetryEvent } from './events.js'

/** A problem with sending events. The client never throws it. */
export interface Problem {
  /**
   * `settings`: the client cannot start. `invalid`: the platform has named invalid events (422), which were dropped.
   * `refused`: the platform has refused a batch, which was dropped. `unreachable`: the platform does not respond; the
   * client tries again. `dropped`: events did not fit into the queue or into an event's limit.
   */
  kind: 'settings' | 'invalid' | 'refused' | 'unreachable' | 'dropped'
  message: string
  status?: number
  /** The `errors` of a 422. */
  errors?: { field: string; message: string }[]
}

export interface ClientOptions {
  /** The address of Pharos, with or without `/api`; it may hold the key, `https://phr_ing_…@…`. Default: `PHAROS_URL`. */
  url?: string
  /** An ingest key, `phr_ing_…`. Default: the one in `url`, or `PHAROS_INGEST_KEY`. */
  ingestKey?: string
  /** The attribute `deployment.environment.name` of each event. Default: `PHAROS_ENVIRONMENT`. */
  environment?: string
  /** The `service` of each event. Default: `OTEL_SERVICE_NAME`. */
  service?: string
  /** The version of the application: the attribute `service.version` of each event. Default: `PHAROS_RELEASE`, or the one in `OTEL_RESOURCE_ATTRIBUTES`. */
  release?: string
  /** Send the output of `console` as logs: true for all levels, or the methods to read. Default: false. */
  captureConsole?: boolean | ConsoleMethod[]
  /**
   * Report uncaught exceptions and unhandled rejections. The process ends as it would without the client. Default:
   * false.
   */
  captureUncaught?: boolean
  /** Send the remaining events when the process ends: at `beforeExit`, SIGTERM, SIGINT and `exit`. Default: true. */
  flushOnExit?: boolean
  /** Maximum time for which the end of the process waits for the platform, in milliseconds. Default: 2000. */
  exitTimeoutMs?: number
  /** Called for each problem. Default: `console.warn`, once for each kind of problem. */
  onError?: (problem: Problem) => void
  /** Return the event, a changed one, or null to drop the event. Default: all events are sent. */
  beforeSend?: (event: TelemetryEvent) => TelemetryEvent | null
  /** Maximum number of waiting events; more are dropped and counted. Default: 10,000. */
  maxQueueEvents?: number
  /** Maximum bytes of waiting JSON. Default: 32 MiB. */
  maxQueueBytes?: number
  /** Events in a batch, at most 1,000. Default: 500. */
  maxBatchEvents?: number
  /** Bytes of JSON in a batch, at most 4 MiB. Default: 1 MiB. */
  maxBatchBytes?: number
  /** Maximum time that an event waits before it is sent, in milliseconds. Default: 2000. */
  flushIntervalMs?: number
  /** Time limit of a request, in milliseconds. Default: 30,000. */
  requestTimeoutMs?: number
  /** The first delay of retries, in milliseconds. Default: 500. */
  retryFirstMs?: number
  /** A replacement of the global `fetch`. */
  fetch?: typeof fetch
}

export type ConsoleMethod = 'debug' | 'log' | 'info' | 'warn' | 'error'

export const CONSOLE_SEVERITIES: Readonly<Record<ConsoleMethod, Severity>> = {
  debug: 'debug',
  log: 'info',
  info: 'info',
  warn: 'warning',
  error: 'error',
}

export interface Settings {
  /** The API root, which ends in `/api`; undefined if the client is disabled. */
  api: string | undefined
  ingestKey: string
  environment: string | undefined
  service: string | undefined
  release: string | undefined
  exitTimeoutMs: number
  maxQueueEvents: number
  maxQueueBytes: number
  maxBatchEvents: number
  maxBatchBytes: number
  flushIntervalMs: number
  requestTimeoutMs: number
  retryFirstMs: number
}

/** Return the value of an environment variable; undefined if it is empty or absent, or if there is no environment. */
export function readVariable(name: string): string | undefined {
  const runtime = globalThis as { process?: { env?: Record<string, string | undefined> } }
  try {
    return runtime.process?.env?.[name] || undefined
  } catch {
    // Deno asks for a permission.
    return undefined
  }
}

/** Return the attributes in `OTEL_RESOURCE_ATTRIBUTES`: `a=1,b=2`, percent-encoded. */
export function readResourceAttributes(): Record<string, string | undefined> {
  const attributes: Record<string, string> = {}
  for (const pair of (readVariable('OTEL_RESOURCE_ATTRIBUTES') ?? '').split(',')) {
    const at = pair.indexOf('=')
    if (at < 1) continue
    const value = pair.slice(at + 1).trim()
    try {
      attributes[pair.slice(0, at).trim()] = decodeURIComponent(value)
    } catch {
      attributes[pair.slice(0, at).trim()] = value
    }
  }
  return attributes
}

/**
 * Return the API root of an address with or without `/api`, and the key in it. Raises `TypeError` for what is no HTTP
 * address; the message does not contain the address, which may contain a key.
 */
export function splitUrl(address: string): { api: string; key: string } {
  let url: URL
  try {
    url = new URL(address)
  } catch {
    throw new TypeError('the address of Pharos is no URL')
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TypeError('the address of Pharos does not begin with http:// or https://')
  }
  const path = url.pathname.replace(/\/+$/, '').replace(/\/api$/, '')
  return { api: `${url.origin}${path}/api`, key: decodeURIComponent(url.username) }
}

/**
 * Return the ingest key. The key in the environment variables belongs to the server that they name: another server must
 * not get it.
 */
export function chooseKey(ingestKey: string | undefined, found: { api?: string; key?: string }): string | undefined {
  const own = ingestKey ?? (found.key || undefined)
  if (own !== undefined) return own
  try {
    const known = readVariable('PHAROS_URL')
    if (known !== undefined && splitUrl(known).api !== found.api) return undefined
  } catch {
    return undefined
  }
  return readVariable('PHAROS_INGEST_KEY')
}

/** Return the settings, and their faults. Faults disable the client. */
export function readSettings(options: ClientOptions): { settings: Settings; problem?: Problem } {
  const url = options.url ?? readVariable('PHAROS_URL')
  let found: { api?: string; key?: string; fault?: string } = {}
  try {
    if (url !== undefined) found = splitUrl(url)
  } catch (error) {
    found = { fault: (error as Error).message }
  }
  const resource = readResourceAttributes()
  const key = chooseKey(options.ingestKey, found)
  const settings: Settings = {
    api: undefined,
    ingestKey: key ?? '',
    environment: options.environment ?? readVariable('PHAROS_ENVIRONMENT') ?? resource['deployment.environment.name'],
    service: options.service ?? readVariable('OTEL_SERVICE_NAME'),
    release: options.release ?? readVariable('PHAROS_RELEASE') ?? resource['service.version'],
    exitTimeoutMs: within(options.exitTimeoutMs, 2000, 0, 60_000),
    maxQueueEvents: within(options.maxQueueEvents, 10_000, 1, 1_000_000),
    maxQueueBytes: within(options.maxQueueBytes, 32 * 2 ** 20, 1024, 2 ** 30),
    maxBatchEvents: within(options.maxBatchEvents, 500, 1, 1000),
    maxBatchBytes: within(options.maxBatchBytes, 2 ** 20, 1024, 4 * 2 ** 20),
    flushIntervalMs: within(options.flushIntervalMs, 2000, 1, 3_600_000),
    requestTimeoutMs: within(options.requestTimeoutMs, 30_000, 1, 600_000),
    retryFirstMs: within(options.retryFirstMs, 500, 1, 30_000),
  }
  if (url === undefined && key === undefined) return { settings }
  if (found.fault !== undefined) return { settings, problem: problem(`${found.fault}. Nothing is sent.`) }
  if (url === undefined || key === undefined) {
    const missing = url === undefined ? 'PHAROS_URL' : 'PHAROS_INGEST_KEY'
    return { settings, problem: problem(`${missing} is not set. Nothing is sent.`) }
  }
  if (!/^[\x21-\x7e]+$/.test(key)) {
    return { settings, problem: problem('The ingest key has characters that no key has. Nothing is sent.') }
  }
  settings.api = found.api
  return { settings }
}

function problem(message: string): Problem {
  return { kind: 'settings', message }
}

function within(value: number | undefined, standard: number, least: number, most: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? Math.min(most, Math.max(least, value)) : standard
}
