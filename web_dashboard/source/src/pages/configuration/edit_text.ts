// Edits of a document by single keys: what to replace, and the selection afterwards.

export interface Edit {
  from: number;
  to: number;
  text: string;
  selectFrom: number;
  selectTo: number;
}

/** Return the edit of Enter: the new line gets the indentation of the present one, and more after a colon. */
export function indentOnEnter(value: string, from: number, to: number): Edit {
  const start = value.lastIndexOf('\n', from - 1) + 1;
  const before = value.slice(start, from);
  const indent = /^ */.exec(before)?.[0] ?? '';
  const text = `\n${indent}${/:\s*$/.test(before) && !/^\s*#/.test(before) ? '  ' : ''}`;
  return { from, to, text, selectFrom: from + text.length, selectTo: from + text.length };
}

/** Return the edit that takes up to two spaces from the beginning of each selected line. */
export function outdentLines(value: string, from: number, to: number): Edit {
  const start = value.lastIndexOf('\n', from - 1) + 1;
  const found = value.indexOf('\n', to);
  const end = found === -1 ? value.length : found;
  const lines = value.slice(start, end).split('\n');
  const shorter = lines.map((line) => line.replace(/^ {1,2}/, ''));
  const first = (lines[0]?.length ?? 0) - (shorter[0]?.length ?? 0);
  const text = shorter.join('\n');
  const removed = end - start - text.length;
  return { from: start, to: end, text, selectFrom: Math.max(start, from - first), selectTo: Math.max(start, to - removed) };
}
