// The addresses of the pages of an environment's telemetry.

type Params = Record<string, string | undefined>;

export type Section = 'services' | 'exceptions' | 'traces' | 'logs' | 'metrics';

export function monitoringPage(environment: string, section: Section, item?: string, params: Params = {}): string {
  const path = ['', 'monitoring', environment, section, ...(item === undefined ? [] : [item])].map(encodeURIComponent).join('/');
  const given = Object.entries(params).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const search = new URLSearchParams(given).toString();
  return search ? `${path}?${search}` : path;
}

/** The path of a service that has no name. */
export const UNNAMED = '-';
