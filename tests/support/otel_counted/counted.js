// Sends 200 spans, 100 log records and 10 metric points with the SDK that is loaded already.
'use strict'
const { metrics, trace } = require('@opentelemetry/api')

exports.send = (logger) => {
  const tracer = trace.getTracer('counted')
  for (let number = 1; number <= 200; number += 1) {
    tracer.startActiveSpan('counted', (span) => {
      if (number <= 100) logger.info(`counted ${number}`)
      span.end()
    })
  }
  const orders = metrics.getMeter('counted').createCounter('counted.orders')
  for (let number = 1; number <= 10; number += 1) orders.add(number, { number })
}

if (require.main === module) exports.send(require('pino')())
