// Light, dark, or as the system says. The choice is kept in this browser.

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'pharos-theme';
let chosen = $state<Theme>(read());

export const theme = {
  get chosen(): Theme {
    return chosen;
  },
};

export function chooseTheme(next: Theme): void {
  chosen = next;
  if (next === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  applyTheme();
}

export function applyTheme(): void {
  if (chosen === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  window.dispatchEvent(new Event('pharos-theme'));
}

function read(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === 'light' || stored === 'dark' ? stored : 'system';
}
