// Sends 200 spans, 100 log records and 20 exceptions with Sentry's SDK, which is set up already.
exports.send = (Sentry) => {
  for (let number = 1; number <= 20; number += 1) {
    Sentry.startSpan({ op: 'task', name: 'counted', forceTransaction: true }, () => {
      for (let step = 0; step < 9; step += 1) Sentry.startSpan({ op: 'task', name: 'counted step' }, () => {});
      for (let log = number * 5 - 4; log <= number * 5; log += 1) Sentry.logger.info(`counted ${log}`);
      Sentry.captureException(new Error(`counted ${number}`));
    });
  }
  return Sentry.flush(60_000);
};
