export type Params = Record<string, string>;

/**
 * Return the parameters of `path` if it has the shape of `pattern`, or null.
 *
 *     matchPath('/deploy/:project', '/deploy/prj_1')  →  { project: 'prj_1' }
 */
export function matchPath(pattern: string, path: string): Params | null {
  const expected = split(pattern);
  const found = split(path);
  if (expected.length !== found.length) return null;
  const params: Params = {};
  for (const [i, part] of expected.entries()) {
    const value = found[i] ?? '';
    if (part.startsWith(':')) params[part.slice(1)] = decode(value);
    else if (part !== value) return null;
  }
  return params;
}

function split(path: string): string[] {
  return path.split('/').filter((part) => part !== '');
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
