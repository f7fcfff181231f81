// Unfinished documents, kept in this tab of the browser. Values of bindings are secrets and are not kept.

const key = (project: string) => `pharos-configuration-${project}`;

export function readDraft(project: string): string | undefined {
  return sessionStorage.getItem(key(project)) ?? undefined;
}

/** Keep the draft; undefined removes it. */
export function writeDraft(project: string, text: string | undefined): void {
  if (text === undefined) sessionStorage.removeItem(key(project));
  else sessionStorage.setItem(key(project), text);
}
