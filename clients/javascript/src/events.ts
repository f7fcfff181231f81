// Events of `POST /v1/ingest`, and their conversion to JSON of a limited size.

export type EventType = 'request' | 'query' | 'job' | 'exception' | 'log' | 'metric'
export type Severity = 'debug' | 'info' | 'warning' | 'error' | 'critical'
export type Attributes = Record<string, unknown>

/** One event. `timestamp` is RFC 3339 with an offset; the client sets it if it is absent. */
export interface TelemetryEvent {
  type: EventType
  id?: string
  severity?: Severity
  name?: string
  title?: string
  timestamp?: string
  trace_id?: string
  span_id?: string
  parent_span_id?: string
  route?: string
  url?: string
  service?: string
  status_code?: number
  duration_ms?: number
  fingerprint?: string
  affected_users?: number
  details?: string
  attributes?: Attributes
  payload?: Record<string, unknown>
}

/** The largest event that the platform accepts, in bytes of JSON, less some room. */
export const MAX_EVENT_BYTES = 256 * 1024 - 1024

const DEEPEST = 12
const MOST_MEMBERS = 1000
const LONGEST_TEXT = 64 * 1024
const SHORT_TEXT = 8 * 1024
const encoder = new TextEncoder()

/** Return the event as JSON bytes, shortened to `limit` bytes; undefined if even the shortened event is larger. */
export function encodeEvent(event: TelemetryEvent, limit: number = MAX_EVENT_BYTES): Uint8Array | undefined {
  const plain = toPlain(event, 0, new Set()) as Record<string, unknown>
  for (const name of ['attributes', 'payload'] as const) {
    if (plain[name] !== undefined && !isObject(plain[name])) plain[name] = { value: plain[name] }
  }
  let bytes = encoder.encode(JSON.stringify(plain))
  for (const shorten of [cutTexts, dropPayload, dropAttributes]) {
    if (bytes.length <= limit) break
    shorten(plain)
    bytes = encoder.encode(JSON.stringify(plain))
  }
  return bytes.length <= limit ? bytes : undefined
}

function cutTexts(event: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(event)) {
    if (typeof value === 'string') event[name] = cutText(value, SHORT_TEXT)
  }
}

function dropPayload(event: Record<string, unknown>): void {
  if (event['payload'] !== undefined) event['payload'] = { 'pharos.truncated': true }
}

function dropAttributes(event: Record<string, unknown>): void {
  if (event['attributes'] !== undefined) event['attributes'] = { 'pharos.truncated': true }
}

export function cutText(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest)}…`
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Return a copy that `JSON.stringify` accepts: without cycles, and of limited depth, width and length of texts. */
function toPlain(value: unknown, depth: number, parents: Set<object>): unknown {
  switch (typeof value) {
    case 'string':
      return cutText(value, LONGEST_TEXT)
    case 'number':
    case 'boolean':
    case 'undefined':
      return value
    case 'bigint':
      return value.toString()
    case 'symbol':
      return value.toString()
    case 'function':
      return `[function ${value.name || 'anonymous'}]`
    default:
      return value === null ? null : toPlainObject(value as object, depth, parents)
  }
}

function toPlainObject(value: object, depth: number, parents: Set<object>): unknown {
  if (parents.has(value)) return '[circular]'
  if (depth >= DEEPEST) return '[too deep]'
  parents.add(value)
  try {
    if (value instanceof Error) {
      return { name: value.name, message: cutText(value.message, LONGEST_TEXT), stack: cutText(value.stack ?? '', LONGEST_TEXT) }
    }
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
    if (value instanceof Map) return listMembers(value.entries(), depth, parents)
    if (Array.isArray(value) || value instanceof Set) return listItems(value, depth, parents)
    if ('toJSON' in value && typeof value.toJSON === 'function') return toPlain(value.toJSON(), depth + 1, parents)
    return listMembers(Object.entries(value), depth, parents)
  } catch {
    // A getter or a proxy of the application has thrown.
    return '[unreadable]'
  } finally {
    parents.delete(value)
  }
}

function listItems(values: Iterable<unknown>, depth: number, parents: Set<object>): unknown[] {
  const items: unknown[] = []
  for (const value of values) {
    if (items.length === MOST_MEMBERS) break
    items.push(toPlain(value, depth + 1, parents) ?? null)
  }
  return items
}

function listMembers(entries: Iterable<[unknown, unknown]>, depth: number, parents: Set<object>): object {
  const members: [string, unknown][] = []
  for (const [name, value] of entries) {
    if (members.length === MOST_MEMBERS) break
    members.push([cutText(String(name), 500), toPlain(value, depth + 1, parents)])
  }
  // `fromEntries` defines a member named `__proto__` instead of changing the prototype.
  return Object.fromEntries(members)
}
