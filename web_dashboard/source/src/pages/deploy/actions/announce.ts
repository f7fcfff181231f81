// What follows an action: the page of the new deployment, and a message with a way back.
import { cancelDeployment, changeRuntime } from '../../../../generated/client/sdk.gen';
import type { Deployment } from '../../../../generated/client/types.gen';
import { call, describeError } from '../../../api/call';
import { navigateIfHere } from '../../../router/router.svelte';
import { showToast } from '../../../state/toasts.svelte';

/** Open the page of a deployment that is just asked for, and offer to cancel it. */
export async function openQueued(asked: Promise<Deployment>): Promise<void> {
  const open = navigateIfHere();
  const deployment = await asked;
  const waits = deployment.status === 'awaiting_approval';
  open(`/deployments/${deployment.id}`);
  showToast(waits ? `Deployment #${deployment.id} waits for the approval of a second person.` : `Deployment #${deployment.id} is queued.`, {
    action: { label: 'Cancel it', run: () => void cancel(deployment.id) },
  });
}

export async function cancel(build: number): Promise<void> {
  try {
    await call(cancelDeployment({ path: { build } }));
    showToast(`Deployment #${build} is canceled.`);
  } catch (error) {
    showToast(describeError(error), { tone: 'bad' });
  }
}

/** Hibernate or wake an environment, and offer the opposite. */
export async function setRuntime(environment: string, name: string, state: 'running' | 'hibernated'): Promise<void> {
  try {
    await call(changeRuntime({ path: { environment }, body: { state } }));
  } catch (error) {
    showToast(describeError(error), { tone: 'bad' });
    return;
  }
  const back = state === 'running' ? 'hibernated' : 'running';
  showToast(state === 'running' ? `${name} wakes up.` : `${name} hibernates: its processes end.`, {
    action: { label: state === 'running' ? 'Hibernate' : 'Wake', run: () => void setRuntime(environment, name, back) },
  });
}
