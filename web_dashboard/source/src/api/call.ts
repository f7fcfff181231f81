// Calls of the management API. The functions come from the generated client; `call` unwraps their answers.
import { client } from '../../generated/client/client.gen';

client.setConfig({ baseUrl: '/api', credentials: 'same-origin', fetch: fetchOnce });

/** The keys of requests without an answer, by what they ask for. */
const unanswered = new Map<string, string>();

/**
 * Send a request. A POST carries an Idempotency-Key; one that is sent again because no answer came has the same key, so that
 * a second click does not deploy twice.
 */
async function fetchOnce(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const request = new Request(input, init);
  if (request.method !== 'POST' || request.headers.has('idempotency-key')) return fetch(request);
  const asked = `${request.url} ${await request.clone().text()}`;
  const key = unanswered.get(asked) ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
  request.headers.set('idempotency-key', key);
  unanswered.set(asked, key);
  const response = await fetch(request);
  unanswered.delete(asked);
  return response;
}

export interface FieldError {
  field: string;
  message: string;
}

/** A problem document that the API answered (RFC 9457), or a connection that failed (status 0). */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    detail: string,
    readonly errors: FieldError[] = [],
    readonly requestId: string | null = null,
  ) {
    super(detail);
  }

  /** Return the message about a field of the request body, or undefined. */
  fieldMessage(field: string): string | undefined {
    return this.errors.find((error) => error.field === field)?.message;
  }
}

interface Answer {
  data?: unknown;
  error?: unknown;
  response?: Response;
}

type Success<R> = R extends { data?: infer D } ? NonNullable<D> : never;

const signedOutListeners = new Set<() => void>();

/** Run `listener` whenever the API answers 401: the session has ended. */
export function onSignedOut(listener: () => void): () => void {
  signedOutListeners.add(listener);
  return () => signedOutListeners.delete(listener);
}

/**
 * Return the whole answer of an operation, such as `{data, next_cursor}`. Throws `ApiProblem`.
 *
 *     const { data, next_cursor } = await callPage(listPeople({ query: { limit: 50 } }));
 */
export async function callPage<R extends Answer>(request: Promise<R>): Promise<Success<R>> {
  let answer: Answer;
  try {
    answer = await request;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiProblem(0, 'No connection', 'Pharos does not answer. Check that it is running and that your connection works.');
  }
  const { response } = answer;
  if (response?.ok) return answer.data as Success<R>;
  if (answer.error instanceof DOMException && answer.error.name === 'AbortError') throw answer.error;
  if (response === undefined) {
    throw new ApiProblem(0, 'No connection', 'Pharos does not answer. Check that it is running and that your connection works.');
  }
  if (response.status === 401) for (const listener of signedOutListeners) listener();
  throw readProblem(response, answer.error);
}

/** Return the `data` of an operation's answer. Throws `ApiProblem`. */
export async function call<R extends Answer>(
  request: Promise<R>,
): Promise<Success<R> extends { data: infer D } ? D : Success<R>> {
  const answer = await callPage(request);
  return (typeof answer === 'object' && answer !== null && 'data' in answer ? answer.data : answer) as never;
}

function readProblem(response: Response, body: unknown): ApiProblem {
  const problem = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>;
  const text = (name: string) => (typeof problem[name] === 'string' ? (problem[name] as string) : undefined);
  const errors = Array.isArray(problem.errors) ? (problem.errors as FieldError[]) : [];
  return new ApiProblem(
    response.status,
    text('title') ?? response.statusText,
    text('detail') ?? text('message') ?? text('title') ?? `The request failed with status ${response.status}.`,
    errors,
    response.headers.get('x-request-id'),
  );
}

/** Return a text for people about anything that was thrown. */
export function describeError(error: unknown): string {
  if (error instanceof ApiProblem) {
    const fields = error.errors.map((each) => `${each.field}: ${each.message}`).join('; ');
    return fields ? `${error.message} (${fields})` : error.message;
  }
  return error instanceof Error ? error.message : String(error);
}
