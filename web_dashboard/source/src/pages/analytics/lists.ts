// The lists of a report: their tabs, and the filter that a row sets.
import { countryName } from './names';
import type { Dimension } from './selection';

export interface ListTab {
  name: string;
  label: string;
  /** The label of a row. */
  of: string;
  /** The filter that a click on a row sets. */
  dimension?: Dimension;
  show?: (name: string) => string;
}

export const LIST_GROUPS: { title: string; parameter: string; tabs: ListTab[] }[] = [
  {
    title: 'Sources',
    parameter: 'sources_tab',
    tabs: [
      { name: 'sources', label: 'Sources', of: 'Source', dimension: 'source' },
      { name: 'campaigns', label: 'Campaigns', of: 'Campaign', dimension: 'campaign' },
    ],
  },
  {
    title: 'Pages',
    parameter: 'pages_tab',
    tabs: [
      { name: 'pages', label: 'Pages', of: 'Page', dimension: 'page' },
      { name: 'entry_pages', label: 'Entry', of: 'Entry page', dimension: 'entry_page' },
      { name: 'exit_pages', label: 'Exit', of: 'Exit page', dimension: 'exit_page' },
      { name: 'missing_pages', label: 'Missing', of: 'Missing page' },
    ],
  },
  {
    title: 'Places and links',
    parameter: 'places_tab',
    tabs: [
      { name: 'countries', label: 'Countries', of: 'Country', dimension: 'country', show: countryName },
      { name: 'outbound_links', label: 'Outbound links', of: 'Link' },
      { name: 'file_downloads', label: 'Downloads', of: 'File' },
    ],
  },
  {
    title: 'Devices',
    parameter: 'devices_tab',
    tabs: [
      { name: 'devices', label: 'Devices', of: 'Device', dimension: 'device' },
      { name: 'browsers', label: 'Browsers', of: 'Browser', dimension: 'browser' },
      { name: 'operating_systems', label: 'Systems', of: 'Operating system', dimension: 'os' },
    ],
  },
];

export const UNITS: Record<string, string> = { pageviews: 'Page views', visits: 'Visits', events: 'Events' };
