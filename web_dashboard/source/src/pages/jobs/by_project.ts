// Monitors grouped by their project, both in the order of their names.

interface InProject {
  name: string;
  project: { id: string; name: string };
}

export interface ProjectGroup<T> {
  id: string;
  name: string;
  items: T[];
}

/** `rank`: items with a lower number come first. */
export function groupByProject<T extends InProject>(items: readonly T[], rank: (item: T) => number = () => 0): ProjectGroup<T>[] {
  const groups = new Map<string, ProjectGroup<T>>();
  for (const item of items) {
    const group = groups.get(item.project.id) ?? { id: item.project.id, name: item.project.name, items: [] };
    group.items.push(item);
    groups.set(group.id, group);
  }
  for (const group of groups.values()) group.items.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  return [...groups.values()].toSorted((a, b) => a.name.localeCompare(b.name));
}
