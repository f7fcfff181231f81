// Reads what people paste: the text of a .env file. The server checks names and values again.

export interface Parsed {
  set: Record<string, string>;
  /** What cannot be read, with the number of its line. */
  faults: string[];
}

const LINE = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$/;

/** Parse `KEY=value` lines with comments, quotes, and values of several lines in double quotes. */
export function parseDotenv(text: string): Parsed {
  const lines = text.split(/\r?\n/);
  const set: Record<string, string> = {};
  const faults: string[] = [];
  for (let i = 0; i < lines.length; i += 1) {
    const line = lines[i] ?? '';
    if (!line.trim() || line.trim().startsWith('#')) continue;
    const found = LINE.exec(line);
    if (!found) {
      faults.push(`Line ${i + 1} is not KEY=value.`);
      continue;
    }
    const name = found[1] ?? '';
    const begin = i + 1;
    let rest = (found[2] ?? '').trim();
    const quote = rest[0];
    if (quote !== '"' && quote !== "'") {
      set[name] = rest.replace(/\s+#.*$/, '');
      continue;
    }
    let end = closing(rest, quote);
    while (end < 0 && quote === '"' && i + 1 < lines.length) {
      i += 1;
      rest += `\n${lines[i]}`;
      end = closing(rest, quote);
    }
    if (end < 0) faults.push(`The quote that begins in line ${begin} has no end.`);
    else set[name] = quote === '"' ? unescape(rest.slice(1, end)) : rest.slice(1, end);
  }
  return { set, faults };
}

function closing(text: string, quote: string): number {
  for (let i = 1; i < text.length; i += 1) {
    if (quote === '"' && text[i] === '\\') i += 1;
    else if (text[i] === quote) return i;
  }
  return -1;
}

function unescape(text: string): string {
  const known: Record<string, string> = { n: '\n', r: '\r', t: '\t' };
  return text.replace(/\\(.)/gs, (_, character: string) => known[character] ?? character);
}
