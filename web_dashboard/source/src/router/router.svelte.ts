// The address of the page as reactive state. Filters, ranges and tabs live in the query string, so that every view is a link.

type Query = Record<string, string | undefined>;

const opened = $state({ path: location.pathname, search: location.search, hash: location.hash });
const query = $derived(Object.fromEntries(new URLSearchParams(opened.search)) as Record<string, string>);

/** The present address. Read its members inside components and `$derived`. */
export const route = {
  get path(): string {
    return opened.path;
  },
  get query(): Record<string, string> {
    return query;
  },
  get hash(): string {
    return opened.hash;
  },
};

/** Open a page of the dashboard without loading the document again. */
export function navigate(href: string, options: { replace?: boolean } = {}): void {
  const url = new URL(href, location.href);
  const address = url.pathname + url.search + url.hash;
  if (address === location.pathname + location.search + location.hash) return;
  history[options.replace ? 'replaceState' : 'pushState'](null, '', address);
  const isOtherPage = url.pathname !== opened.path;
  read();
  if (isOtherPage) window.scrollTo(0, 0);
}

/** Return a function that opens a page if this one is still open: call it before a request. An answer that comes late does
 * not pull the person away from where they have gone meanwhile. */
export function navigateIfHere(): typeof navigate {
  const from = opened.path;
  return (href, options) => {
    if (opened.path === from) navigate(href, options);
  };
}

/** Return the present address, with its `#` part, with these members of the query string set; undefined or '' removes one. */
export function withQuery(changes: Query, path: string = opened.path): string {
  const params = new URLSearchParams(path === opened.path ? opened.search : '');
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') params.delete(name);
    else params.set(name, value);
  }
  const search = params.toString();
  const hash = path === opened.path ? opened.hash : '';
  return `${path}${search ? `?${search}` : ''}${hash}`;
}

/** Change the query string. `replace` keeps the back button free of each keystroke in a search field. */
export function setQuery(changes: Query, options: { replace?: boolean } = {}): void {
  navigate(withQuery(changes), options);
}

function read(): void {
  opened.path = location.pathname;
  opened.search = location.search;
  opened.hash = location.hash;
}

/** Follow links inside the dashboard, and the back and forward buttons. Returns a function that stops it. */
export function startRouter(isPage: (path: string) => boolean): () => void {
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.('a');
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    if (!isPage(link.pathname)) return;
    event.preventDefault();
    navigate(link.href);
  };
  document.addEventListener('click', follow);
  window.addEventListener('popstate', read);
  return () => {
    document.removeEventListener('click', follow);
    window.removeEventListener('popstate', read);
  };
}
