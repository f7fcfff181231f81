// What states, triggers and steps of deployments are called.
import type { DeploymentDetails, DeploymentStatus } from '../../../generated/client/types.gen';
import type { Tone } from '../../components/Status.svelte';

interface StatusWords {
  text: string;
  tone: Tone;
  busy?: boolean;
}

const STATUSES: Record<DeploymentStatus, StatusWords> = {
  queued: { text: 'Queued', tone: 'accent', busy: true },
  awaiting_approval: { text: 'Waits for approval', tone: 'warn' },
  rejected: { text: 'Rejected', tone: 'bad' },
  deploying: { text: 'Building', tone: 'accent', busy: true },
  running: { text: 'Releasing', tone: 'accent', busy: true },
  succeeded: { text: 'Succeeded', tone: 'ok' },
  failed: { text: 'Failed', tone: 'bad' },
  canceled: { text: 'Canceled', tone: 'idle' },
};

export const STATUS_NAMES = Object.keys(STATUSES) as DeploymentStatus[];

export function statusWords(status: DeploymentStatus): StatusWords {
  return STATUSES[status] ?? { text: status, tone: 'idle' };
}

export function isFinished(status: DeploymentStatus): boolean {
  return status === 'succeeded' || status === 'failed' || status === 'canceled' || status === 'rejected';
}

/** True while `POST …/cancel` may end it. */
export function isCancelable(status: DeploymentStatus): boolean {
  return status === 'queued' || status === 'awaiting_approval' || status === 'deploying';
}

const STEPS: Record<string, string> = {
  check_out: 'Check out',
  build: 'Build',
  release: 'Release steps',
  start: 'Start and health check',
  switch: 'Switch traffic',
};

export function stepName(step: string): string {
  return STEPS[step] ?? step;
}

/** Return why a deployment exists, such as `rollback to #12`. */
export function describeTrigger(deployment: DeploymentDetails): string {
  if (deployment.rolled_back_to_build_id !== null) return `rollback to #${deployment.rolled_back_to_build_id}`;
  if (deployment.promoted_from_build_id !== null) return `promotion of #${deployment.promoted_from_build_id}`;
  const names: Record<string, string> = { api: 'by hand', push: 'push', pull_request: 'pull request' };
  return names[deployment.trigger] ?? deployment.trigger;
}

/** Return who asked for a deployment: a person, or what the webhook reported. */
export function describeRequester(deployment: DeploymentDetails): string {
  return deployment.asked_by?.name ?? deployment.note ?? (deployment.trigger === 'api' ? 'an operator' : 'a webhook');
}

/** Return where a deployment comes from, such as `pushed by ingrid to main`. */
export function describeOrigin(deployment: DeploymentDetails): string {
  const who = describeRequester(deployment);
  const ref = deployment.ref && deployment.commit_subject ? shortRef(deployment.ref) : '';
  if (deployment.rolled_back_to_build_id === null && deployment.promoted_from_build_id === null && deployment.trigger !== 'pull_request') {
    if (deployment.trigger === 'push' && deployment.note) return ref ? `${who} to ${ref}` : who;
    if (deployment.trigger === 'api') return `deployed by ${who}${ref ? `, ${ref}` : ''}`;
  }
  const parts = deployment.trigger === 'pull_request' && deployment.note ? [who, ref] : [who, describeTrigger(deployment), ref];
  return parts.filter(Boolean).join(', ');
}

/** Return a branch or tag as it is, and a whole commit shortened. */
export function shortRef(ref: string): string {
  return /^[0-9a-f]{40,64}$/.test(ref) ? ref.slice(0, 12) : ref;
}

export function shortCommit(revision: string): string {
  return revision.slice(0, 7);
}
