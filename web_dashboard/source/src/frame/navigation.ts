// The areas of the navigation, in their order, with the letter that follows `G`.
import Activity from '@lucide/svelte/icons/activity';
import Bell from '@lucide/svelte/icons/bell';
import ChartNoAxesColumn from '@lucide/svelte/icons/chart-no-axes-column';
import FileCog from '@lucide/svelte/icons/file-cog';
import House from '@lucide/svelte/icons/house';
import Rocket from '@lucide/svelte/icons/rocket';
import Settings from '@lucide/svelte/icons/settings';
import Timer from '@lucide/svelte/icons/timer';
import type { Component } from 'svelte';

export interface Area {
  label: string;
  href: string;
  /** `G` and then this letter opens the area. */
  letter: string;
  icon: Component<any>;
}

export const AREAS: Area[] = [
  { label: 'Overview', href: '/', letter: 'o', icon: House },
  { label: 'Deploy', href: '/deploy', letter: 'd', icon: Rocket },
  { label: 'Monitoring', href: '/monitoring', letter: 'm', icon: Activity },
  { label: 'Jobs', href: '/jobs', letter: 'j', icon: Timer },
  { label: 'Analytics', href: '/analytics', letter: 'a', icon: ChartNoAxesColumn },
  { label: 'Notifications', href: '/notifications', letter: 'n', icon: Bell },
  { label: 'Configuration', href: '/configuration', letter: 'c', icon: FileCog },
  { label: 'Settings', href: '/settings', letter: 's', icon: Settings },
];

/** Return the area that a path belongs to. */
export function areaOf(path: string): Area | undefined {
  if (path.startsWith('/deployments')) return AREAS.find((area) => area.href === '/deploy');
  return AREAS.find((area) => (area.href === '/' ? path === '/' : path === area.href || path.startsWith(`${area.href}/`)));
}
