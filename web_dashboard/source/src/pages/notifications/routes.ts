import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/notifications', load: () => import('./incidents/Incidents.svelte') },
  { pattern: '/notifications/incidents', load: () => import('./incidents/Incidents.svelte') },
  { pattern: '/notifications/incidents/:incident', load: () => import('./incidents/IncidentPage.svelte') },
  { pattern: '/notifications/rules', load: () => import('./rules/Rules.svelte') },
  { pattern: '/notifications/thresholds', load: () => import('./thresholds/Thresholds.svelte') },
  { pattern: '/notifications/channels', load: () => import('./channels/Channels.svelte') },
  { pattern: '/notifications/deliveries', load: () => import('./deliveries/Deliveries.svelte') },
  { pattern: '/notifications/silences', load: () => import('./silences/Silences.svelte') },
  { pattern: '/notifications/preferences', load: () => import('./silences/Preferences.svelte') },
];
