import type { PageEntry } from '../page_entry';

export const PAGES: PageEntry[] = [
  { pattern: '/deploy', load: () => import('./DeployHome.svelte') },
  { pattern: '/deploy/:project', load: () => import('./project/ProjectPage.svelte') },
  { pattern: '/deploy/:project/:environment', load: () => import('./environment/EnvironmentPage.svelte') },
  { pattern: '/deployments/:build', load: () => import('./deployment/DeploymentPage.svelte') },
];
