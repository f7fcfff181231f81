// Plans of configurations, as the pages show them: grouped by object, with readable values.
import type { ConfigurationAction, ConfigurationChange } from '../../../generated/client/types.gen';

export type Mark = '+' | '~' | '−';

export interface Group<A> {
  /** The address of an environment, a site, the project or the notifications. */
  object: string;
  actions: A[];
}

/** Return the actions grouped by environment, site, project or notifications, in the order of the plan. */
export function groupActions<A extends ConfigurationAction>(actions: readonly A[]): Group<A>[] {
  const groups = new Map<string, A[]>();
  for (const action of actions) {
    const object = outermost(action.resource);
    groups.set(object, [...(groups.get(object) ?? []), action]);
  }
  return [...groups].map(([object, found]) => ({ object, actions: found }));
}

const OUTERMOST = /^(?:environments|sites)(?:\.[A-Za-z0-9_-]+|\["(?:[^"\\]|\\.)*"\])/;

function outermost(resource: string): string {
  return OUTERMOST.exec(resource)?.[0] ?? resource.split('.')[0] ?? resource;
}

/** Return the part of an address behind the object that it belongs to: `heartbeats.backup`; '' for the object itself. */
export function nameInside(resource: string, object: string): string {
  return resource.slice(object.length).replace(/^\./, '');
}

export const MARKS: Record<ConfigurationAction['action'], Mark> = { create: '+', update: '~', delete: '−' };
export const VERBS: Record<ConfigurationAction['action'], string> = { create: 'create', update: 'change', delete: 'delete' };

const IS_MEMBER = /^(?:variables|goals)[.[]/;

/** Return how one field changes: members of a changed object are added and removed themselves. */
export function markChange(action: ConfigurationAction['action'], change: ConfigurationChange): Mark {
  if (action !== 'update' || !IS_MEMBER.test(change.field)) return MARKS[action];
  if (change.from === null) return '+';
  return change.to === null ? '−' : '~';
}

/** True if the change concerns a gate of an environment: an approval, the deploy window, or the environment as a whole. */
export function touchesGate(action: ConfigurationAction, change: ConfigurationChange): boolean {
  if (!/^environments(?:\.[^.[]+|\["[^"]*"\])$/.test(action.resource) || action.action === 'create') return false;
  if (change.field === 'window') return change.from !== null && change.from !== undefined;
  return change.field.startsWith('approval.') && change.from === true;
}

/** Return a value as a document has it on one line; null is `none`. */
export function formatValue(value: unknown): string {
  if (value === null || value === undefined) return 'none';
  if (typeof value === 'string') return value === '' || /^\s|\s$|[\n\r\t]/.test(value) ? JSON.stringify(value) : value;
  if (Array.isArray(value)) return `[${value.map(formatValue).join(', ')}]`;
  if (typeof value === 'object') {
    return `{${Object.entries(value).map(([name, member]) => `${name}: ${formatValue(member)}`).join(', ')}}`;
  }
  return String(value);
}

/** Return one side of a change; of a secret, the mask and the beginning of its digest. */
export function formatSide(change: ConfigurationChange, side: 'from' | 'to'): string {
  if (!change.sensitive) return formatValue(change[side]);
  const digest = side === 'from' ? change.from_digest : change.to_digest;
  return [change[side] ?? 'none', digest].filter(Boolean).join(' ');
}

/** Return the names of `${name}` in a document, in their order; not those in comments, nor `$${name}`. */
export function findBindings(document: string): string[] {
  const text = document.replace(/^\s*#.*$/gm, '');
  return [...new Set([...text.matchAll(/(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]{0,99})\}/g)].map((found) => found[1] ?? ''))];
}
