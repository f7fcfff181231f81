import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/jobs', load: () => import('./Heartbeats.svelte') },
  { pattern: '/jobs/heartbeats', load: () => import('./Heartbeats.svelte') },
  { pattern: '/jobs/heartbeats/:heartbeat', load: () => import('./HeartbeatPage.svelte') },
  { pattern: '/jobs/queues', load: () => import('./Queues.svelte') },
  { pattern: '/jobs/queues/:queue', load: () => import('./QueuePage.svelte') },
];
