import { call } from './calls.js';
import { measure, pause, repeat, report } from './engagement.js';
import { guard, on } from './guard.js';
import { click } from './links.js';
import { loadVitals, reportVitals, vital } from './measured.js';
import { changed, event, path, view } from './pages.js';
import { flush, restore } from './queue.js';
import { framed, has, option } from './settings.js';

const start = guard(() => {
  // Calls are held until the page is shown. The page's own stub holds calls made before this script has loaded.
  let held = [];
  let firstPath;
  const stub = window.pharos;
  if (!option('site') || (stub && stub.vital)) return;

  const pharos = guard((...args) => (held ? held.push(args) : call(...args)));
  pharos.vital = guard(vital);
  window.pharos = pharos;

  const leave = () => {
    report();
    reportVitals(firstPath);
    flush(true);
  };

  const show = guard(() => {
    view(true);
    restore();
    firstPath = path;
    if (!framed && (has('404') || document.querySelector('meta[name=pharos][content="404"]'))) event({ name: '404' });
    const calls = [...((stub && stub.q) || []), ...held];
    held = 0;
    for (const args of calls) pharos(...args);

    for (const name of ['pushState', 'replaceState']) {
      const original = history[name];
      history[name] = function () {
        const result = original.apply(this, arguments);
        guard(changed)();
        return result;
      };
    }
    on(window, 'popstate', changed);
    if (has('hash')) on(window, 'hashchange', changed);
    on(window, 'pageshow', ({ persisted }) => {
      if (!persisted) return;
      view();
      restore();
    });

    // The web-vitals library listens on `window` in the capturing phase, so its last values arrive before this.
    on(window, 'visibilitychange', () => (document.visibilityState === 'hidden' ? leave() : measure()));
    on(window, 'pagehide', () => {
      leave();
      pause();
    });
    repeat(guard(report));

    // In the capturing phase: a page that stops the event must not hide the click.
    on(document, 'click', click, true);
    on(document, 'auxclick', click, true);

    if (document.readyState === 'complete') loadVitals();
    else on(window, 'load', loadVitals);
  });

  if (document.prerendering) on(document, 'prerenderingchange', show);
  else show();
});

start();
