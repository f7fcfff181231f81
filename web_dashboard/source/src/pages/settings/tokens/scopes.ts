// The scopes of API tokens, in groups, with what they allow.
import type { Token } from '../../../../generated/client/types.gen';

export type Scope = Token['scopes'][number];

export const SCOPE_GROUPS: { label: string; scopes: [Scope, string][] }[] = [
  { label: 'Deploy', scopes: [['deploy:read', 'read projects, deployments and logs'], ['deploy:write', 'deploy, roll back, scale, set variables, apply configurations'], ['projects:write', 'manage projects, environments and members']] },
  { label: 'Monitoring', scopes: [['monitoring:read', 'read heartbeats, queues and ingest keys'], ['monitoring:write', 'change them'], ['telemetry:read', 'read events, logs, traces, metrics and exceptions']] },
  { label: 'Analytics', scopes: [['analytics:read', 'read reports of sites'], ['analytics:write', 'change sites and goals']] },
  { label: 'Notifications', scopes: [['notifications:read', 'read incidents and notifications'], ['notifications:write', 'change rules, channels and silences']] },
  { label: 'Account', scopes: [['account:read', 'read people, tokens, usage and the audit log'], ['account:write', 'manage people, invitations and tokens']] },
];

const ALL = SCOPE_GROUPS.flatMap((group) => group.scopes.map(([scope]) => scope));

/** Return the scopes as a short text: `all` or their names. */
export function describeScopes(scopes: readonly Scope[]): string {
  return ALL.every((scope) => scopes.includes(scope)) ? 'all' : scopes.join(', ');
}
