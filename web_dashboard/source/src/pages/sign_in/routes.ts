import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/sign-in', load: () => import('./SignIn.svelte'), isPublic: true },
];
