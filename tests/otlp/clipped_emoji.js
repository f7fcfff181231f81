// 500 spans in one export; the text of one of them was cut in the middle of an emoji, as `slice` does.
'use strict'
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http')
const { BatchSpanProcessor, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node')

const options = { maxExportBatchSize: 500, maxQueueSize: 1000, scheduledDelayMillis: 60000 }
const tracing = new NodeTracerProvider({
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(), options)],
})
const tracer = tracing.getTracer('clipped')
for (let number = 0; number < 500; number++) {
  const text = number === 250 ? 'great \u{1F600}'.slice(0, 7) : 'plain'
  tracer.startSpan(`span ${number}`, { attributes: { text } }).end()
}
tracing.shutdown()
