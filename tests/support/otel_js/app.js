// A small instrumented application. OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS say where its telemetry goes; what it made
// is printed as JSON, for the test to compare.
'use strict'
const { metrics, SpanKind, SpanStatusCode } = require('@opentelemetry/api')
const { SeverityNumber } = require('@opentelemetry/api-logs')
const { OTLPLogExporter } = require('@opentelemetry/exporter-logs-otlp-http')
const { OTLPMetricExporter } = require('@opentelemetry/exporter-metrics-otlp-http')
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http')
const { resourceFromAttributes } = require('@opentelemetry/resources')
const { BatchLogRecordProcessor, LoggerProvider } = require('@opentelemetry/sdk-logs')
const { MeterProvider, PeriodicExportingMetricReader } = require('@opentelemetry/sdk-metrics')
const { BatchSpanProcessor, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node')

const resource = resourceFromAttributes({ 'service.name': 'js-shop', 'service.version': '1.2.3' })
const tracing = new NodeTracerProvider({
  resource,
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
})
tracing.register()
const logging = new LoggerProvider({
  resource,
  // The option has had both forms.
  processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter() })],
})
const reader = new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter() })
const metering = new MeterProvider({ resource, readers: [reader] })
metrics.setGlobalMeterProvider(metering)

const tracer = tracing.getTracer('js-app', '0.1.0')
const logger = logging.getLogger('js-app')
const meter = metering.getMeter('js-app')
const orders = meter.createCounter('orders', { unit: '1', description: 'Orders placed' })
const duration = meter.createHistogram('order.duration', { unit: 'ms' })
const open = meter.createUpDownCounter('orders.open')
meter.createObservableGauge('temperature').addCallback((result) => result.observe(21.5, { room: 'a' }))

const made = { spans: [], logs: 0 }

function record(span, attributes) {
  span.setAttributes(attributes)
  const { traceId, spanId } = span.spanContext()
  made.spans.push({ traceId, spanId, name: span.name, attributes })
}

function placeOrder(number) {
  tracer.startActiveSpan(`order ${number}`, { kind: SpanKind.SERVER }, (order) => {
    record(order, { 'order.number': number, 'order.express': number % 2 === 0, 'order.total': number + 0.5, 'order.tags': ['a', 'ü'] })
    for (const step of ['charge', 'ship']) {
      tracer.startActiveSpan(step, { kind: SpanKind.CLIENT, links: [{ context: order.spanContext() }] }, (span) => {
        record(span, { step, 'peer.service': `${step}-service` })
        span.addEvent('tried', { attempt: 1 })
        if (number % 10 === 0 && step === 'ship') {
          span.recordException(new Error(`no lorry for order ${number}`))
          span.setStatus({ code: SpanStatusCode.ERROR, message: 'not shipped' })
        }
        span.end()
      })
    }
    logger.emit({ severityNumber: SeverityNumber.INFO, severityText: 'INFO', body: `order ${number} placed`, attributes: { number } })
    made.logs += 1
    orders.add(1, { express: number % 2 === 0 })
    open.add(number % 2 === 0 ? 1 : -1)
    duration.record(number * 3)
    order.end()
  })
}

async function main() {
  for (let number = 1; number <= 40; number += 1) placeOrder(number)
  await Promise.all([tracing.forceFlush(), logging.forceFlush(), metering.forceFlush()])
  await Promise.all([tracing.shutdown(), logging.shutdown(), metering.shutdown()])
  console.log(JSON.stringify(made))
}

main()
