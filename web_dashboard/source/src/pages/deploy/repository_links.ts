// Addresses of commits at the Git host of a repository.

/** Return the address of the repository's page, or null for a folder or an unknown host. */
export function repositoryUrl(url: string, kind: string): string | null {
  if (kind !== 'github' && kind !== 'gitlab' && kind !== 'bitbucket') return null;
  const found = /^(?:https:\/\/|ssh:\/\/git@|git@)([A-Za-z0-9.-]+)(?::\d+)?[/:](.+?)(?:\.git)?\/?$/.exec(url);
  return found ? `https://${found[1]}/${found[2]}` : null;
}

/** Return the address of a commit, or null if it is not known. */
export function commitUrl(url: string, kind: string, revision: string): string | null {
  const base = repositoryUrl(url, kind);
  if (base === null) return null;
  const paths: Record<string, string> = { github: '/commit/', gitlab: '/-/commit/', bitbucket: '/commits/' };
  return `${base}${paths[kind]}${revision}`;
}

/** Return the address of the commits between two, or null if the host has no such page. */
export function compareUrl(url: string, kind: string, from: string, to: string): string | null {
  const base = repositoryUrl(url, kind);
  if (base === null) return null;
  if (kind === 'bitbucket') return `${base}/branches/compare/${to}%0D${from}`;
  return `${base}${kind === 'gitlab' ? '/-' : ''}/compare/${from}...${to}`;
}

export function hostName(kind: string): string {
  const names: Record<string, string> = { github: 'GitHub', gitlab: 'GitLab', bitbucket: 'Bitbucket' };
  return names[kind] ?? 'the Git host';
}

/** Return a repository's URL as people read it: `github.com/example/shop`, or the name of a folder. */
export function shortRepository(url: string): string {
  if (url.startsWith('/') || url.startsWith('file:')) return url.split('/').filter(Boolean).at(-1) ?? url;
  return url.replace(/^(?:https:\/\/|ssh:\/\/)?(?:git@)?/, '').replace(':', '/').replace(/\.git$/, '');
}

/** Return the kind of Git host that a URL names, where no repository says it. */
export function guessKind(url: string): string {
  const host = /^(?:https:\/\/|ssh:\/\/)?(?:git@)?([^/:]+)/.exec(url)?.[1] ?? '';
  return host === 'github.com' ? 'github' : host === 'gitlab.com' ? 'gitlab' : host === 'bitbucket.org' ? 'bitbucket' : 'git';
}
