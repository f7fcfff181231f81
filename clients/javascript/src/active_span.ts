// The active span of OpenTelemetry, if the application uses it: events of the client then belong to its trace.

interface Context {
  getValue(key: symbol): unknown
}
interface Span {
  spanContext(): { traceId: string; spanId: string }
}
interface Api {
  context?: { active(): Context }
}

// `@opentelemetry/api` registers its implementation under this symbol, so that all copies of the package share it.
const API = Symbol.for('opentelemetry.js.api.1')
const SPAN_KEY = Symbol.for('OpenTelemetry Context Key SPAN')
const NO_TRACE = '0'.repeat(32)

/** Return the IDs of the active span; undefined without one. */
export function activeSpan(): { trace_id: string; span_id: string } | undefined {
  try {
    const api = (globalThis as Record<symbol, unknown>)[API] as Api | undefined
    const span = api?.context?.active().getValue(SPAN_KEY) as Span | undefined
    const ids = span?.spanContext()
    return ids === undefined || ids.traceId === NO_TRACE ? undefined : { trace_id: ids.traceId, span_id: ids.spanId }
  } catch {
    return undefined
  }
}
