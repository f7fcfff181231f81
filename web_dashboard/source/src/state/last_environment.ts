// The environment that was looked at or chosen last in this browser: pages and forms begin with it.
const KEY = 'pharos-environment';

export function rememberEnvironment(id: string): void {
  localStorage.setItem(KEY, id);
}

export function lastEnvironment(): string | null {
  return localStorage.getItem(KEY);
}

/** Return the environment to begin with: the last one, else the first of production, else the first. */
export function pickEnvironment<E extends { id: string; type: string }>(environments: readonly E[]): E | undefined {
  const last = lastEnvironment();
  return environments.find((each) => each.id === last) ?? environments.find((each) => each.type === 'production') ?? environments[0];
}
