// What people decide about a group of exceptions.
import type { Tone } from '../../../components/Status.svelte';

export type GroupStatus = 'open' | 'resolved' | 'ignored';

export const STATUS_TONES: Record<GroupStatus, Tone> = { open: 'bad', resolved: 'ok', ignored: 'idle' };
export const STATUS_WORDS: Record<GroupStatus, string> = { open: 'Open', resolved: 'Resolved', ignored: 'Ignored' };
