// Severities of log records, by OpenTelemetry's numbers.
import type { Tone } from '../../../components/Status.svelte';

export const LEVELS = ['debug', 'info', 'warning', 'error', 'fatal'] as const;
export type Level = (typeof LEVELS)[number];

/** Return the word and the tone of a severity number; 0 is unknown. */
export function levelOf(number: number): { word: string; tone: Tone } {
  if (number >= 21) return { word: 'FATAL', tone: 'bad' };
  if (number >= 17) return { word: 'ERROR', tone: 'bad' };
  if (number >= 13) return { word: 'WARN', tone: 'warn' };
  if (number >= 9) return { word: 'INFO', tone: 'accent' };
  if (number >= 1) return { word: 'DEBUG', tone: 'idle' };
  return { word: '–', tone: 'idle' };
}
