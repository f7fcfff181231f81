import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/configuration', load: () => import('./ProjectList.svelte') },
  { pattern: '/configuration/:project', load: () => import('./EditPage.svelte') },
  { pattern: '/configuration/:project/history', load: () => import('./HistoryPage.svelte') },
  { pattern: '/configuration/:project/reviews/:review', load: () => import('./ReviewPage.svelte') },
  { pattern: '/configuration/:project/applications/:application', load: () => import('./RunPage.svelte') },
];
