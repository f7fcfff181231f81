import { call } from './calls.js';
import { measure, pause, repeat, report } from './engagement.js';
import { guard, on } from './guard.js';
import { click } from './links.js';
import { loadVitals, reportVitals, vital } from './measured.js';
import { changed, event, path, view } from './pages.js';
import { flush, restore } from './queue.js';
import { framed, has, option } from './settings.js';

const start = guard(() => {
  // Calls made until the page is really shown are held; those of before the script by the page's own stub.
  let held = [];
  let firstPath;
  const earlier = window.pharos;
  if (!option('site') || (earlier && earlier.vital)) return;

  const pharos = guard((...given) => (held ? held.push(given) : call(...given)));
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
    const calls = [...((earlier && earlier.q) || []), ...held];
    held = 0;
    for (const given of calls) pharos(...given);

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

    // The web-vitals library listens on `window` while the event is captured: its last values come before these.
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
