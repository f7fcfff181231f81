import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/sign-in', load: () => import('./SignIn.svelte'), isPublic: true },
  { pattern: '/join', load: () => import('./Join.svelte'), isPublic: true },
  // Here and not among the settings: this area owns it.
  { pattern: '/settings/security', load: () => import('../settings/security/Security.svelte') },
];
