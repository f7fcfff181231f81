// What the person may do in a project. The server decides anyway; the pages hide or explain what it would refuse.
import { listMembers } from '../../../generated/client/sdk.gen';
import { callPage } from '../../api/call';
import { resource } from '../../state/resource.svelte';
import { session } from '../../state/session.svelte';

export interface ProjectRole {
  /** Deploy, roll back, scale, lock, set variables. */
  readonly canDeploy: boolean;
  /** Approve and reject; change the settings of the project and its environments. */
  readonly canManage: boolean;
  /** Why not, or undefined while the role is not known. */
  readonly reason: string | undefined;
}

/** Return the role in the project that `project` returns. Call it while a component is created. */
export function projectRole(project: () => string | undefined): ProjectRole {
  const found = resource((signal) => {
    const id = project();
    if (id === undefined || session.isAdmin) return undefined;
    return readRole(id, signal);
  });
  const role = $derived(session.isAdmin ? 'maintainer' : found.data);
  return {
    get canDeploy() {
      return role === 'deployer' || role === 'maintainer';
    },
    get canManage() {
      return role === 'maintainer';
    },
    get reason() {
      return role === undefined ? undefined : `Your role in this project is ${role}. Ask a maintainer for another one.`;
    },
  };
}

async function readRole(project: string, signal: AbortSignal): Promise<string | undefined> {
  let cursor: string | undefined;
  for (;;) {
    const page = await callPage(listMembers({ path: { project }, query: { limit: 100, cursor }, signal }));
    const mine = page.data.find((member) => member.person.id === session.present?.person.id);
    if (mine?.role) return mine.role;
    if (!page.next_cursor) return undefined;
    cursor = page.next_cursor;
  }
}
