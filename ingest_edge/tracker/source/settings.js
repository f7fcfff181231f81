// What the script tag says. A script that another one has inserted late may have no `currentScript` any more.
export const script = document.currentScript || document.querySelector('script[data-site]');

export const option = (name) => script.getAttribute('data-' + name);

export const has = (name) => script.hasAttribute('data-' + name);

// `…/tracker/v1.js` and `…/api/tracker/v1.js` both lie beside `…/api/v1/collect`.
export const address = () =>
  (option('api') || script.src.replace(/(\/api)?\/tracker\/[^/]*(\?.*)?$/, '/api/v1/collect')) + '/' + option('site');
