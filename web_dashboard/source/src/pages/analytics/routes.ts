import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/analytics', load: () => import('./Sites.svelte') },
  { pattern: '/analytics/:site', load: () => import('./SitePage.svelte') },
  { pattern: '/analytics/:site/settings', load: () => import('./settings/SiteSettings.svelte') },
  { pattern: '/share', load: () => import('./SharedPage.svelte'), isPublic: true },
];
