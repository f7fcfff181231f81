// A small application with the unmodified Sentry SDK for Node.js. Arguments: the DSN, and `stream` or `static` spans.
// Prints the IDs that it made as JSON.
const Sentry = require('@sentry/node');

Sentry.init({
  dsn: process.argv[2],
  release: 'shop@1.2.3',
  environment: 'staging',
  serverName: 'web-1',
  tracesSampleRate: 1,
  enableLogs: true,
  traceLifecycle: process.argv[3],
});

function pay(order) {
  return order.card.amount;
}

function fail(number) {
  try {
    try {
      pay({});
    } catch (error) {
      throw new Error(`order ${number} failed`, { cause: error });
    }
  } catch (error) {
    return Sentry.captureException(error);
  }
}

async function main() {
  const made = {};
  Sentry.setUser({ id: 'user-7', email: 'ada@shop.example' });
  Sentry.setTag('shop.region', 'eu');
  Sentry.startSpan({ op: 'http.server', name: 'GET /orders', forceTransaction: true }, (root) => {
    const { traceId, spanId } = root.spanContext();
    Object.assign(made, { trace_id: traceId, span_id: spanId });
    Sentry.startSpan({ op: 'db', name: 'SELECT * FROM orders', attributes: { 'db.system': 'postgresql' } }, (span) => {
      made.child_id = span.spanContext().spanId;
    });
    made.errors = [fail(17), fail(18)];
    made.message = Sentry.captureMessage('the stock is low', 'warning');
    Sentry.logger.info(Sentry.logger.fmt`order ${17} placed`, { number: 17 });
    root.setStatus({ code: 2, message: 'internal_error' });
  });
  Sentry.withMonitor('nightly-report', () => {}, { schedule: { type: 'crontab', value: '0 3 * * *' } });
  await Sentry.flush(60_000);
  console.log(JSON.stringify(made));
}

main();
