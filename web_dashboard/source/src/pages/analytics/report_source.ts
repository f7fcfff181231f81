// Where a report comes from: the API with the session of a person, or with the secret of a shared link.
import {
  readCurrentVisitors,
  readSharedConversions,
  readSharedCurrentVisitors,
  readSharedFigures,
  readSharedLists,
  readSharedPageSpeed,
  readSiteConversions,
  readSiteFigures,
  readSiteLists,
  readSitePageSpeed,
} from '../../../generated/client/sdk.gen';
import type { Conversions, Figures, Lists, PageSpeed } from '../../../generated/client/types.gen';
import { ApiProblem, call } from '../../api/call';
import type { Compare, PeriodParameters } from './selection';

export type AnalysisQuery = PeriodParameters & { filters?: string };
export type FiguresQuery = AnalysisQuery & { compare?: Compare; compare_from?: string; interval?: 'hour' | 'day' };
export type ListsQuery = AnalysisQuery & { names: string; search?: string; limit?: number };

export interface ReportSource {
  figures: (query: FiguresQuery, signal: AbortSignal) => Promise<Figures>;
  lists: (query: ListsQuery, signal: AbortSignal) => Promise<Lists>;
  conversions: (query: AnalysisQuery, signal: AbortSignal) => Promise<Conversions>;
  pageSpeed: (query: AnalysisQuery & { by_page?: boolean }, signal: AbortSignal) => Promise<PageSpeed>;
  currentVisitors: (signal: AbortSignal) => Promise<number>;
}

const RETRY_MS = 2000;
const TRIES = 4;

/** Ask again after a while if many reports are being made. */
async function patiently<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (tries === TRIES || signal.aborted || !(error instanceof ApiProblem) || ![429, 503].includes(error.status)) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS * tries));
    }
  }
}

export function siteSource(site: string): ReportSource {
  const path = { site: Number(site) };
  return {
    figures: (query, signal) => patiently(() => call(readSiteFigures({ path, query, signal })), signal),
    lists: (query, signal) => patiently(() => call(readSiteLists({ path, query, signal })), signal),
    conversions: (query, signal) => patiently(() => call(readSiteConversions({ path, query, signal })), signal),
    pageSpeed: (query, signal) => patiently(() => call(readSitePageSpeed({ path, query, signal })), signal),
    currentVisitors: async (signal) => (await call(readCurrentVisitors({ path, signal }))).visitors,
  };
}

export function sharedSource(secret: string): ReportSource {
  const body = { secret };
  return {
    figures: (query, signal) => patiently(() => call(readSharedFigures({ body, query, signal })), signal),
    lists: (query, signal) => patiently(() => call(readSharedLists({ body, query, signal })), signal),
    conversions: (query, signal) => patiently(() => call(readSharedConversions({ body, query, signal })), signal),
    pageSpeed: (query, signal) => patiently(() => call(readSharedPageSpeed({ body, query, signal })), signal),
    currentVisitors: async (signal) => (await call(readSharedCurrentVisitors({ body, signal }))).visitors,
  };
}
