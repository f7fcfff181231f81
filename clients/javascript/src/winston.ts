// A transport of Winston: `transports: [winstonTransport()]`. Winston accepts any stream of objects.

import { Writable } from 'node:stream'
import type { Client } from './client.js'
import { defaultClient } from './default_client.js'
import type { Severity, TelemetryEvent } from './events.js'

type Info = Record<string, unknown> & { level?: string; message?: unknown; stack?: unknown; timestamp?: unknown }

const SEVERITIES: Readonly<Record<string, Severity>> = {
  emerg: 'critical',
  alert: 'critical',
  crit: 'critical',
  error: 'error',
  warn: 'warning',
  warning: 'warning',
  debug: 'debug',
  verbose: 'debug',
  silly: 'debug',
}

/** Return a stream of objects, which is a transport of Winston. Default: the client of `init`. */
export function winstonTransport(client?: Client): Writable {
  const stream = new Writable({
    objectMode: true,
    write(info: Info, _encoding, done) {
      ;(client ?? defaultClient())?.capture(readInfo(info))
      done()
    },
  })
  // Winston recognizes a transport by a function with two parameters. It writes to the stream.
  return Object.assign(stream, { log: (_info: unknown, _done: unknown): void => {} })
}

/** Return the event of one of Winston's `info` objects. */
export function readInfo(info: Info): TelemetryEvent {
  const { level, message, stack, timestamp: _timestamp, ...attributes } = info
  const event: TelemetryEvent = { type: 'log', severity: SEVERITIES[level ?? ''] ?? 'info', title: String(message ?? ''), attributes }
  if (typeof stack === 'string') event.details = stack
  return event
}
