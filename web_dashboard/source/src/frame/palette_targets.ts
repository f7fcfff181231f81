import { listHeartbeats, listQueues, listServices, listSites } from '../../generated/client/sdk.gen';
import { call, callPage } from '../api/call';
import { canReadIn } from '../state/project_role.svelte';

interface Place {
  id: string;
  /** Such as `Shop · Production`. */
  label: string;
}

export interface Target {
  label: string;
  hint: string;
  /** Other words that find it; they are not shown. */
  words?: string;
  href: string;
  /** The environment that the target is. */
  environment?: Place;
}

/** How many environments are asked for their services: each takes a query of the column store. */
const ASKED = 8;

const MOST = 30;

/** The pages of the dashboard below its areas. */
export const PAGES: Target[] = [
  { label: 'Getting started', hint: 'Page', href: '/start', words: 'sentry dsn otel opentelemetry tracker snippet first event' },
  { label: 'Keys', hint: 'Settings', href: '/settings/keys', words: 'ingest key monitor key ping key sentry dsn token' },
  { label: 'OpenTelemetry', hint: 'Settings', href: '/settings/opentelemetry', words: 'otel otlp traces metrics logs' },
  { label: 'Sentry DSN', hint: 'Settings', href: '/settings/opentelemetry?language=sentry', words: 'sdk exceptions errors' },
  { label: 'Your sign-in and sessions', hint: 'Settings', href: '/settings/security', words: 'password second factor' },
  { label: 'People', hint: 'Settings', href: '/settings/people', words: 'invite roles members' },
  { label: 'API tokens', hint: 'Settings', href: '/settings/tokens' },
  { label: 'Usage', hint: 'Settings', href: '/settings/usage', words: 'limits' },
  { label: 'Storage and backups', hint: 'Settings', href: '/settings/storage', words: 'retention' },
  { label: 'Audit', hint: 'Settings', href: '/settings/audit' },
  { label: 'Heartbeats', hint: 'Jobs', href: '/jobs/heartbeats', words: 'ping url cron scheduled' },
  { label: 'Queues', hint: 'Jobs', href: '/jobs/queues', words: 'celery rq dramatiq bullmq sidekiq workers' },
];

/** Words that people use for what a page of the documentation calls otherwise. */
const OTHER_WORDS: Record<string, string> = {
  'guides/sentry': 'dsn',
  'guides/opentelemetry': 'otel otlp',
  'guides/ping-urls': 'heartbeat cron',
  'guides/queues': 'rq dramatiq bullmq worker',
  'guides/tracker': 'script page views',
};

// `[address, title, [[anchor, heading, text], …]]` for each page.
type SearchIndex = [string, string, [string, string, string][]][];
let documentation: Promise<Target[]> | undefined;

/** Return the pages of the documentation, by their titles and headings. The index is read once; after a failure, again. */
export function findDocumentation(): Promise<Target[]> {
  documentation ??= readDocumentation().catch(() => {
    documentation = undefined;
    return [];
  });
  return documentation;
}

async function readDocumentation(): Promise<Target[]> {
  const response = await fetch('/docs/search.json');
  if (!response.ok) throw new Error(`/docs/search.json returned ${response.status}`);
  const pages = (await response.json()) as SearchIndex;
  return pages.map(([address, title, passages]) => ({
    label: title,
    hint: 'Documentation',
    href: `/docs/${address}`,
    words: [address, OTHER_WORDS[address], ...passages.map(([, heading]) => heading)].join(' '),
  }));
}

/** Return the targets whose label, hint or other words have every word of the text: those whose label begins with it first, then those that show it. */
export function findTargets(targets: Target[], text: string): Target[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const begin = text.trim().toLowerCase();
  return targets
    .map((target) => ({ target, rank: rankTarget(target, words, begin) }))
    .filter(({ rank }) => rank > 0)
    .sort((a, b) => b.rank - a.rank)
    .slice(0, MOST)
    .map(({ target }) => target);
}

/** 0: the target does not match. Other words count from their beginning: `ping` is not in `keeping`. */
function rankTarget(target: Target, words: string[], begin: string): number {
  const shown = `${target.label} ${target.hint}`.toLowerCase();
  if (words.every((word) => shown.includes(word))) return target.label.toLowerCase().startsWith(begin) ? 3 : 2;
  const hidden = ` ${target.words ?? ''}`.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ');
  return words.every((word) => shown.includes(word) || hidden.includes(` ${word}`)) ? 1 : 0;
}

/** Return what is watched: heartbeats, queues, sites, and the services of the first environments. Failures leave a kind out. */
export async function findWatched(environments: Place[]): Promise<Target[]> {
  const groups = await Promise.allSettled([
    callPage(listHeartbeats({ query: { limit: 100 } })).then(({ data }) => data.map((each) => ({ label: each.name, hint: 'Heartbeat', href: `/jobs/heartbeats/${each.id}` }))),
    callPage(listQueues({ query: { limit: 100 } })).then(({ data }) => data.map((each) => ({ label: each.name, hint: 'Queue', href: `/jobs/queues/${each.id}` }))),
    call(listSites()).then((sites) => sites.filter((each) => canReadIn(each.project.id)).map((each) => ({ label: each.name, hint: 'Site', href: `/analytics/${each.id}` }))),
    ...environments.slice(0, ASKED).map(findServices),
  ]);
  return groups.flatMap((group) => (group.status === 'fulfilled' ? group.value : []));
}

async function findServices(environment: Place): Promise<Target[]> {
  const { data } = await callPage(listServices({ path: { environment: environment.id }, query: { since: '1d', limit: 50 } }));
  return data.flatMap(({ service }) =>
    service ? [{ label: service, hint: `Service of ${environment.label}`, href: `/monitoring/${environment.id}/services/${encodeURIComponent(service)}` }] : [],
  );
}
