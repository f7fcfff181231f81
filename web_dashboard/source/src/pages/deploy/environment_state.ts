import type { EnvironmentOverview } from '../../../generated/client/types.gen';
import type { Tone } from '../../components/Status.svelte';
import { plural } from '../../format/numbers';

/** Return how an environment is doing, in a word or two. */
export function describeState(environment: EnvironmentOverview): { tone: Tone; text: string } {
  const { running, desired } = environment;
  if (environment.live === null) return { tone: 'idle', text: 'Nothing is live' };
  if (environment.state === 'hibernated') return { tone: 'idle', text: 'Hibernated' };
  if (desired !== null && running < desired) return { tone: running === 0 ? 'bad' : 'warn', text: `${running} of ${desired} running` };
  return { tone: 'ok', text: plural(running, 'process', 'processes') };
}

/** Return an address without its scheme, as people read it. */
export function shortAddress(address: string): string {
  return address.replace(/^https?:\/\//, '').replace(/\/$/, '');
}
