// The script of a page with the unmodified Sentry SDK for browsers. The page's address has the DSN after its `#`, and in
// its query the options of the SDK as JSON. `shop` has what a visitor does; the test calls it.
import * as Sentry from '@sentry/browser';

Sentry.init({
  dsn: decodeURIComponent(location.hash.slice(1)),
  release: 'shop-web@1.2.3',
  environment: 'staging',
  integrations: [
    // Both send soon, so that the test need not wait.
    Sentry.browserTracingIntegration({ idleTimeout: 200 }),
    Sentry.replayIntegration({ flushMinDelay: 100, minReplayDuration: 0 }),
  ],
  tracesSampleRate: 1,
  replaysSessionSampleRate: 1,
  enableLogs: true,
  ...JSON.parse(new URLSearchParams(location.search).get('options')),
});
Sentry.setUser({ id: 'user-7' });

function price(article) {
  throw new RangeError(`no price for article ${article}`);
}

async function order(article) {
  throw new TypeError(`no stock of article ${article}`);
}

window.shop = {
  loadPrices: async () => (await fetch('/prices.json')).json(),
  // Not caught and not awaited: the SDK learns of both from the browser.
  fail: () => void setTimeout(() => price(42)),
  reject: () => void order(43),
  report: () => Sentry.captureMessage('the basket is empty', 'warning'),
  log: () => Sentry.logger.info('basket opened', { articles: 2 }),
  navigate: () => history.pushState({}, '', '/checkout' + location.search + location.hash),
  flush: () => Sentry.flush(20_000),
};
