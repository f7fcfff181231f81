// What the person may do in projects. The server decides anyway; the pages hide or explain what it would refuse.
import { session } from './session.svelte';

export interface ProjectRole {
  /** Deploy, roll back, scale, lock, set variables; change monitors and sites; silence and acknowledge. */
  readonly canDeploy: boolean;
  /** Approve and reject; change the project, its environments, rules and thresholds. */
  readonly canManage: boolean;
  /** Why not, or undefined while the project is not known. */
  readonly reason: string | undefined;
}

/** Return the role in the project that `project` returns; without one, nothing is allowed. */
export function projectRole(project: () => string | undefined): ProjectRole {
  return {
    get canDeploy() {
      return canDeployIn(project());
    },
    get canManage() {
      return canManageIn(project());
    },
    get reason() {
      const id = project();
      return id === undefined ? undefined : `Your role in this project is ${roleIn(id) ?? 'none'}. Ask a maintainer for another one.`;
    },
  };
}

/** True if the person may look at the project. */
export function canReadIn(project: string): boolean {
  return roleIn(project) !== undefined;
}

/** True if the person may deploy in the project. Null: in the account as a whole, as owners and admins may. */
export function canDeployIn(project: string | null | undefined): boolean {
  const role = roleIn(project);
  return role === 'deployer' || role === 'maintainer';
}

/** True if the person may manage the project. Null: the account as a whole, as owners and admins may. */
export function canManageIn(project: string | null | undefined): boolean {
  return roleIn(project) === 'maintainer';
}

/** True if there is a project that the person may look at. */
export function canReadSomewhere(): boolean {
  return session.isAdmin || roles().length > 0;
}

/** True if there is a project in which the person may deploy. */
export function canDeploySomewhere(): boolean {
  return session.isAdmin || roles().some((role) => role !== 'viewer');
}

/** True if there is a project that the person may manage. */
export function canManageSomewhere(): boolean {
  return session.isAdmin || roles().includes('maintainer');
}

function roleIn(project: string | null | undefined): string | undefined {
  if (session.isAdmin) return project === undefined ? undefined : 'maintainer';
  return project ? session.present?.project_roles[project] : undefined;
}

function roles(): string[] {
  return Object.values(session.present?.project_roles ?? {});
}
