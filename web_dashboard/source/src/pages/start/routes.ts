import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [{ pattern: '/start', load: () => import('./GettingStarted.svelte') }];
