import type { Component } from 'svelte';

/** A page: the shape of its address, and the module that shows it. */
export interface PageEntry {
  pattern: string;
  load: () => Promise<{ default: Component<any> }>;
  /** True for pages that need no session, and show no navigation. */
  isPublic?: boolean;
}
