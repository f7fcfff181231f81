// Requests of an HTTP server as events.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { activeSpan } from './active_span.js'
import type { Client } from './client.js'
import { defaultClient } from './default_client.js'
import type { Severity, TelemetryEvent } from './events.js'

export interface RequestOptions {
  /** Default: the client of `init`. */
  client?: Client
  /** Return the route of a request, such as `/users/:id`. Default: the route of Express. */
  route?: (request: IncomingMessage) => string | undefined
  /** Return false for requests that are not reported, such as health checks. Default: all are reported. */
  filter?: (request: IncomingMessage) => boolean
}

interface ExpressRequest extends IncomingMessage {
  originalUrl?: string
  baseUrl?: string
  route?: { path?: unknown }
}

/**
 * Return a middleware for `(request, response, next)`: for Express, Connect and `http.createServer`, and within hooks of
 * Fastify and Koa. It sends an event of type `request` when the response has ended. Queries are omitted, because they
 * may contain secrets.
 */
export function requestMiddleware(
  options: RequestOptions = {},
): (request: IncomingMessage, response: ServerResponse, next?: () => void) => void {
  return (request, response, next) => {
    const client = options.client ?? defaultClient()
    if (client?.enabled && isWanted(options, request)) {
      const timestamp = new Date().toISOString()
      const startedAt = performance.now()
      // At the end, another span may be active.
      const trace = activeSpan() ?? readParent(request.headers['traceparent'])
      // `close` follows `finish`, or occurs alone if the caller has disconnected.
      response.once('close', () => {
        const event = requestEvent(request, response, options, performance.now() - startedAt)
        client.capture({ ...event, ...trace, timestamp })
      })
    }
    next?.()
  }
}

function isWanted(options: RequestOptions, request: IncomingMessage): boolean {
  try {
    return options.filter?.(request) !== false
  } catch {
    return true
  }
}

function requestEvent(
  request: ExpressRequest,
  response: ServerResponse,
  options: RequestOptions,
  durationMs: number,
): TelemetryEvent {
  const method = request.method ?? 'GET'
  const route = findRoute(request, options)
  const isAborted = !response.writableFinished
  const event: TelemetryEvent = {
    type: 'request',
    name: route === undefined ? method : `${method} ${route}`,
    url: (request.originalUrl ?? request.url ?? '').split('?', 1)[0] as string,
    severity: severityOf(response.statusCode),
    status_code: response.statusCode,
    duration_ms: Math.round(durationMs * 1000) / 1000,
    attributes: { 'http.request.method': method, ...(isAborted ? { aborted: true } : {}) },
  }
  if (route !== undefined) event.route = route
  return event
}

function severityOf(status: number): Severity {
  return status >= 500 ? 'error' : status >= 400 ? 'warning' : 'info'
}

function findRoute(request: ExpressRequest, options: RequestOptions): string | undefined {
  try {
    const own = options.route?.(request)
    if (own !== undefined) return own
  } catch {
    return undefined
  }
  const path = request.route?.path
  return typeof path === 'string' ? `${request.baseUrl ?? ''}${path}` : undefined
}

/** Read the header of W3C Trace Context. */
function readParent(header: string | string[] | undefined): { trace_id?: string; parent_span_id?: string } {
  const found = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}/.exec(String(header ?? ''))
  return found === null ? {} : { trace_id: found[1] as string, parent_span_id: found[2] as string }
}
