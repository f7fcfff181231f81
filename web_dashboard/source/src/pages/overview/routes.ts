import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/', load: () => import('./Overview.svelte') },
];
