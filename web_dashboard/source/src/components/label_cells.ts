// On a phone, rows of a table with the class `cards` become cards: each cell shows the head of its column.

/** Give each cell the text of its column's head as `data-label`. Heads that are visually hidden give none. */
export function labelCells(table: HTMLTableElement): () => void {
  const label = () => {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) => (head.querySelector('.visually-hidden') ? '' : head.textContent.trim()));
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
      for (const cell of row.cells) {
        const text = cell.colSpan > 1 ? '' : (heads[cell.cellIndex] ?? '');
        if (text) cell.dataset.label = text;
        else delete cell.dataset.label;
      }
    }
  };
  label();
  const changes = new MutationObserver(label);
  changes.observe(table, { childList: true, subtree: true });
  return () => changes.disconnect();
}
