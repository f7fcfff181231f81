export interface Target {
  label: string;
  hint: string;
  href: string;
}

const MOST = 30;

/** Return the targets whose label has every word of the text, those that begin with it first. */
export function findTargets(targets: Target[], text: string): Target[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const begin = text.trim().toLowerCase();
  return targets
    .filter((target) => words.every((word) => `${target.label} ${target.hint}`.toLowerCase().includes(word)))
    .sort((a, b) => Number(b.label.toLowerCase().startsWith(begin)) - Number(a.label.toLowerCase().startsWith(begin)))
    .slice(0, MOST);
}
