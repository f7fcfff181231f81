// All pages, by area. The server answers the first segments of these addresses (`web_dashboard/page_paths.py`).
import { PAGES as analytics } from './analytics/routes';
import { PAGES as configuration } from './configuration/routes';
import { PAGES as deploy } from './deploy/routes';
import { PAGES as jobs } from './jobs/routes';
import { PAGES as monitoring } from './monitoring/routes';
import { PAGES as notifications } from './notifications/routes';
import { PAGES as overview } from './overview/routes';
import type { PageEntry } from './page_entry';
import { PAGES as settings } from './settings/routes';
import { PAGES as signIn } from './sign_in/routes';
import { PAGES as start } from './start/routes';

export const PAGES: PageEntry[] = [
  ...overview,
  ...start,
  ...deploy,
  ...jobs,
  ...monitoring,
  ...analytics,
  ...notifications,
  ...configuration,
  ...settings,
  ...signIn,
];
