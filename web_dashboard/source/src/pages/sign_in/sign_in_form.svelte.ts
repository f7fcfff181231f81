// What the forms without a session share: sending once, the messages, and the step that asks for a code.
import { ApiProblem, describeError } from '../../api/call';
import { navigate, route } from '../../router/router.svelte';
import { readSession } from '../../state/session.svelte';

/** The statuses and types of problems are in the answer: generated calls return it beside the data. */
interface Answer {
  data?: unknown;
  error?: unknown;
  response?: Response;
}

export class SignInForm {
  busy = $state(false);
  /** What is wrong with the whole form. */
  problem = $state('');
  /** True once the server has asked for a code of the second factor. */
  needsCode = $state(false);
  errors = $state.raw<Record<string, string>>({});

  /** Send the form. After a success, ask who is signed in, and open `next`, or the page that was asked for. */
  async submit(send: () => Promise<Answer>, next?: string): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.problem = '';
    this.errors = {};
    try {
      const answer = await send();
      if (answer.response?.ok) {
        await readSession();
        navigate(next ?? nextPage(), { replace: true });
      } else this.#read(answer);
    } catch (error) {
      this.problem = describeError(error);
    } finally {
      this.busy = false;
    }
  }

  #read(answer: Answer): void {
    if (!answer.response) throw new ApiProblem(0, 'No connection', 'Pharos does not answer. Check that it is running and that your connection works.');
    const problem = (answer.error ?? {}) as { type?: string; detail?: string; errors?: { field: string; message: string }[] };
    if (problem.type === '/problems/second-factor-required' && !this.needsCode) {
      this.needsCode = true;
      return;
    }
    for (const { field, message } of problem.errors ?? []) this.errors = { ...this.errors, [field]: message };
    if (!problem.errors?.length) this.problem = problem.detail ?? `The request failed with status ${answer.response.status}.`;
  }
}

/** Return the page that was asked for before sign-in: an address of this dashboard only. */
export function nextPage(): string {
  const next = route.query.next ?? '/';
  try {
    const url = new URL(next, location.origin);
    if (next.startsWith('/') && url.origin === location.origin && !url.pathname.startsWith('//') && !url.pathname.startsWith('/sign-in')) return url.pathname + url.search;
  } catch {
    // No address.
  }
  return '/';
}

/** Return the secret behind `#name=` in the address, and take it out of the address and the history. */
export function takeSecret(name: string): string {
  const hash = location.hash.slice(1);
  const found = new URLSearchParams(hash).get(name) ?? '';
  if (found) history.replaceState(null, '', location.pathname + location.search);
  return found;
}
