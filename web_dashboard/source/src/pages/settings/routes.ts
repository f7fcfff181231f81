import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/settings', load: () => import('./account/AccountPage.svelte') },
  { pattern: '/settings/people', load: () => import('./people/PeoplePage.svelte') },
  { pattern: '/settings/tokens', load: () => import('./tokens/TokensPage.svelte') },
  { pattern: '/settings/keys', load: () => import('./keys/KeysPage.svelte') },
  { pattern: '/settings/opentelemetry', load: () => import('./opentelemetry/OpenTelemetryPage.svelte') },
  { pattern: '/settings/usage', load: () => import('./usage/UsagePage.svelte') },
  { pattern: '/settings/storage', load: () => import('./storage/StoragePage.svelte') },
  { pattern: '/settings/audit', load: () => import('./audit/AuditPage.svelte') },
];
