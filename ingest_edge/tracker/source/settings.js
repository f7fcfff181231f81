import { guard } from './guard.js';

// What the script tag says. A script that another one has inserted late may have no `currentScript` any more.
export const script = document.currentScript || document.querySelector('script[data-site]');

export const option = (name) => script.getAttribute('data-' + name);

export const has = (name) => script.hasAttribute('data-' + name);

// `…/tracker/v1.js` and `…/api/tracker/v1.js` both lie beside `…/api/v1/collect`.
export const address = () =>
  (option('api') || script.src.replace(/(\/api)?\/tracker\/[^/]*(\?.*)?$/, '/api/v1/collect')) + '/' + option('site');

// Only documents of the same origin may read this.
const isOwn = guard((other) => other.location.host);

// A frame inside of a page of the same origin: the visitor views that page. In a page of somebody else it is a view.
export const framed = (() => {
  for (let inner = window; inner !== inner.parent; ) {
    inner = inner.parent;
    if (isOwn(inner)) return true;
  }
})();
