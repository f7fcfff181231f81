// A transport of Pino: `pino({ transport: { target: 'pharos-client/pino' } })`. It runs in a worker thread, with a client
// of its own.

import { Writable } from 'node:stream'
import { Client } from './client.js'
import type { Severity, TelemetryEvent } from './events.js'
import type { ClientOptions } from './settings.js'

type Line = Record<string, unknown> & { level?: number | string; time?: number | string; msg?: string; err?: { stack?: string } }

/**
 * Return the stream that Pino writes its lines to. The options must be cloneable: `onError` and `fetch` are not
 * available here.
 */
export default function transport(options: ClientOptions = {}): Writable {
  const client = new Client(options)
  let rest = ''
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      const lines = (rest + chunk.toString()).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line !== '') client.capture(readLine(line))
      done()
    },
    final(done) {
      if (rest !== '') client.capture(readLine(rest))
      void client.close(client.settings.exitTimeoutMs).then(() => done())
    },
  })
}

/** Return the event of a line of Pino. Any other line becomes the message. */
export function readLine(text: string): TelemetryEvent {
  let line: Line
  try {
    line = JSON.parse(text) as Line
  } catch {
    return { type: 'log', severity: 'info', title: text }
  }
  const { level, time, msg, err, pid: _pid, hostname: _hostname, trace_id, span_id, ...attributes } = line
  const event: TelemetryEvent = { type: 'log', severity: severityOf(level), title: String(msg ?? ''), attributes }
  const at = new Date(typeof time === 'number' || typeof time === 'string' ? time : Date.now())
  if (!Number.isNaN(at.getTime())) event.timestamp = at.toISOString()
  if (typeof trace_id === 'string') event.trace_id = trace_id
  if (typeof span_id === 'string') event.span_id = span_id
  if (typeof err?.stack === 'string') event.details = err.stack
  return event
}

function severityOf(level: number | string | undefined): Severity {
  const names: Record<string, number> = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 }
  const number = typeof level === 'number' ? level : (names[String(level)] ?? 30)
  return number >= 60 ? 'critical' : number >= 50 ? 'error' : number >= 40 ? 'warning' : number >= 30 ? 'info' : 'debug'
}
