// Objects with a version (ETag), so that a change of somebody else is not overwritten.
import { ApiProblem, call, describeError } from './call';

interface Answer {
  data?: unknown;
  error?: unknown;
  response?: Response;
}

/** An object, and the version to send as `If-Match` with a change of it. */
export interface Versioned<T> {
  data: T;
  etag: string;
}

/** Return the `data` of a read with its version. Throws `ApiProblem`. */
export async function callVersioned<R extends Answer>(request: Promise<R>): Promise<Versioned<Awaited<ReturnType<typeof call<R>>>>> {
  const data = await call(request);
  return { data, etag: (await request).response?.headers.get('etag') ?? '' };
}

/** Return the headers of a change of the version that was read. */
export function ifMatch(etag: string): { 'If-Match'?: string } {
  return etag ? { 'If-Match': etag } : {};
}

/** Return a text about a failed change for the foot of a form; for a version that is out of date, what to do. */
export function describeChangeError(error: unknown): string {
  if (error instanceof ApiProblem && error.status === 412) return 'Somebody else has changed this since you opened it. Close this dialog to see the current state, then make your change again.';
  if (error instanceof ApiProblem && error.errors.length > 0) return `Nothing was saved: ${error.errors.map((each) => `${each.field} ${each.message}`).join('; ')}.`;
  return describeError(error);
}
