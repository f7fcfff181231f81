// Acknowledge and silence: the two answers to an incident.
import { acknowledgeIncident, silenceIncident } from '../../../../generated/client/sdk.gen';
import type { Incident } from '../../../../generated/client/types.gen';
import { call, describeError } from '../../../api/call';
import type { MenuItem } from '../../../components/Menu.svelte';
import { plural } from '../../../format/numbers';
import { showToast } from '../../../state/toasts.svelte';

const LENGTHS: [number, string][] = [
  [3600, 'for 1 hour'],
  [4 * 3600, 'for 4 hours'],
  [86_400, 'for a day'],
  [7 * 86_400, 'for a week'],
];

/** Acknowledge the incident, or with `group` all open ones of its project, environment and family. Errors show as a message. */
export async function acknowledge(incident: Incident, group: boolean, then: () => Promise<void>): Promise<void> {
  try {
    const answer = await call(acknowledgeIncident({ path: { incident: incident.id }, body: { group } }));
    showToast(group ? `${plural(answer.incidents, 'incident')} acknowledged` : 'Acknowledged: Pharos sends no more reminders, only the end of the incident');
    await then();
  } catch (error) {
    showToast(describeError(error), { tone: 'bad' });
  }
}

async function silence(incident: Incident, seconds: number, group: boolean, then: () => Promise<void>): Promise<void> {
  try {
    await call(silenceIncident({ path: { incident: incident.id }, body: { seconds, group } }));
    showToast('Silenced: Pharos sends nothing about it until the silence ends');
    await then();
  } catch (error) {
    showToast(describeError(error), { tone: 'bad' });
  }
}

/** The items of the menu of an open incident. */
export function answerItems(incident: Incident, then: () => Promise<void>): (MenuItem | 'line')[] {
  return [
    { label: 'Acknowledge all of this group', run: () => void acknowledge(incident, true, then) },
    'line',
    ...LENGTHS.map(([seconds, text]) => ({ label: `Silence ${text}`, run: () => void silence(incident, seconds, false, then) })),
    'line',
    { label: 'Silence the group for 4 hours', run: () => void silence(incident, 4 * 3600, true, then) },
  ];
}
