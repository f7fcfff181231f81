// Lines of a log: how they are searched, copied and saved.

export interface LogLine {
  /** Unique in the log. */
  key: string;
  text: string;
  /** When it was printed, as RFC 3339; process output has no times. */
  at?: string;
  tone?: 'system' | 'error';
  /** What printed it, such as `web.1`. */
  source?: string;
}

// Terminal colours and cursor movements (ECMA-48 CSI and OSC sequences): the pages show plain text.
// eslint-disable-next-line no-control-regex
const CONTROL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\))/g;

export function plainText(text: string): string {
  return text.includes('\u001b') ? text.replace(CONTROL, '') : text;
}

/** Return the positions of the lines that contain the text, in any case. */
export function findLines(lines: readonly LogLine[], text: string): number[] {
  const wanted = text.toLowerCase();
  if (wanted === '') return [];
  const found: number[] = [];
  for (const [i, line] of lines.entries()) if (line.text.toLowerCase().includes(wanted)) found.push(i);
  return found;
}

/** Split a text at each occurrence of `wanted`, in any case: parts with odd positions are occurrences. */
export function splitMatches(text: string, wanted: string): string[] {
  if (wanted === '') return [text];
  const parts: string[] = [];
  const lower = text.toLowerCase();
  const needle = wanted.toLowerCase();
  // Lower case may have another length, such as that of `İ`; then nothing is marked.
  if (lower.length !== text.length) return [text];
  let from = 0;
  for (let at = lower.indexOf(needle); at !== -1; at = lower.indexOf(needle, from)) {
    parts.push(text.slice(from, at), text.slice(at, at + needle.length));
    from = at + needle.length;
  }
  return [...parts, text.slice(from)];
}

export function asText(lines: readonly LogLine[]): string {
  return lines.map((line) => [line.at, line.source, line.text].filter((part) => part !== undefined).join(' ')).join('\n') + '\n';
}

/** Save a text as a file of the browser. */
export function download(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: 'text/plain;charset=utf-8' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}
