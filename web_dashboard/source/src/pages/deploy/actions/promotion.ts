// To which environments the release of another one may be promoted.

interface Stage {
  id: string;
  order: number;
  type: string;
}

/** Return the environments of the project that come after the one with this ID. Previews are no targets. */
export function listTargets<E extends Stage>(environments: readonly E[] | undefined, from: string): E[] {
  const order = environments?.find((each) => each.id === from)?.order ?? 0;
  return (environments ?? []).filter((each) => each.order > order && each.type !== 'preview');
}
