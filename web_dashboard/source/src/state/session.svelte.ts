// Who is signed in.
import { ApiProblem, onSignedOut } from '../api/call';

export interface Session {
  person: { id: string; name: string; email: string };
  account: { id: string; name: string };
  role: 'owner' | 'admin' | 'member';
  /** The roles in projects by project ID; owners and admins need none. */
  project_roles: Record<string, 'viewer' | 'deployer' | 'maintainer'>;
  accounts: { id: string; name: string; role: string }[];
  second_factor: boolean;
  has_password: boolean;
}

let reads = 0;
let present = $state.raw<Session | null | undefined>(undefined);

export const session = {
  /** The session; null: nobody is signed in; undefined: not known yet. */
  get present(): Session | null | undefined {
    return present;
  },
  /** True if the person manages the account. */
  get isAdmin(): boolean {
    return present?.role === 'owner' || present?.role === 'admin';
  },
};

/** Ask the server who is signed in. Throws `ApiProblem` if it does not answer. */
export async function readSession(): Promise<Session | null> {
  reads += 1;
  const mine = reads;
  let response: Response;
  try {
    response = await fetch('/api/v1/session', { headers: { accept: 'application/json' } });
  } catch {
    throw new ApiProblem(0, 'No connection', 'Pharos does not answer. Check that it is running and that your connection works.');
  }
  const found = response.ok ? ((await response.json()) as { data: Session }).data : null;
  // A later read has answered before this one.
  if (mine !== reads) return present ?? null;
  if (response.status === 401) present = null;
  else if (response.ok) present = found;
  else throw new ApiProblem(response.status, response.statusText, `The session could not be read (status ${response.status}).`);
  return present ?? null;
}

/** Sign out of this browser. */
export async function signOut(): Promise<void> {
  let response: Response | undefined;
  try {
    response = await fetch('/api/v1/session', { method: 'DELETE' });
  } catch {
    // No connection.
  }
  if (!response?.ok && response?.status !== 401) throw new Error('You are still signed in: Pharos could not end the session. Try again.');
  present = null;
}

// A request that overtook the renewal of the cookie is refused although the session goes on.
onSignedOut(() => {
  readSession().catch(() => undefined);
});
