import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/monitoring', load: () => import('./MonitoringHome.svelte') },
  { pattern: '/monitoring/:environment', load: () => import('./MonitoringHome.svelte') },
  { pattern: '/monitoring/:environment/services', load: () => import('./services/Services.svelte') },
  { pattern: '/monitoring/:environment/services/:service', load: () => import('./services/ServiceDetail.svelte') },
  { pattern: '/monitoring/:environment/exceptions', load: () => import('./exceptions/Exceptions.svelte') },
  { pattern: '/monitoring/:environment/exceptions/:group', load: () => import('./exceptions/ExceptionDetail.svelte') },
  { pattern: '/monitoring/:environment/traces', load: () => import('./traces/Traces.svelte') },
  { pattern: '/monitoring/:environment/traces/:trace', load: () => import('./traces/TraceDetail.svelte') },
  { pattern: '/monitoring/:environment/logs', load: () => import('./logs/Logs.svelte') },
  { pattern: '/monitoring/:environment/metrics', load: () => import('./metrics/Metrics.svelte') },
];
