import { guard } from './guard.js';

// The tracker's script tag. `currentScript` may be null if another script has inserted the tag.
export const script = document.currentScript || document.querySelector('script[data-site]');

export const option = (name) => script.getAttribute('data-' + name);

export const has = (name) => script.hasAttribute('data-' + name);

// The collect URL of `…/tracker/v1.js` and of `…/api/tracker/v1.js` is `…/api/v1/collect`.
export const address = () =>
  (option('api') || script.src.replace(/(\/api)?\/tracker\/[^/]*(\?.*)?$/, '/api/v1/collect')) + '/' + option('site');

// Only documents of the same origin may read this.
const isOwn = guard((other) => other.location.host);

// True in a frame inside a page of the same origin, which counts the view. A frame in another site's page counts itself.
export const framed = (() => {
  for (let inner = window; inner !== inner.parent; ) {
    inner = inner.parent;
    if (isOwn(inner)) return true;
  }
})();
