import type { FieldError } from '../../api/call';

export interface DocumentFault {
  /** The place in the document, or `bindings.name`. */
  place: string;
  message: string;
  /** From 1; undefined for bindings. */
  line?: number;
}

const LINE = /^line (\d+): /;

/** Return the errors of a refused document with their lines, in the order of the lines. */
export function documentFaults(errors: readonly (FieldError & { line?: number })[]): DocumentFault[] {
  return errors
    .map((error) => ({
      place: error.field.replace(/^document\.?/, ''),
      message: error.message.replace(LINE, ''),
      line: error.line ?? readLine(error.message),
    }))
    .sort((a, b) => (a.line ?? Infinity) - (b.line ?? Infinity));
}

function readLine(message: string): number | undefined {
  const found = LINE.exec(message);
  return found ? Number(found[1]) : undefined;
}
