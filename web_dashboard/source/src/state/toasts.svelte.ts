// Short messages about what happened, with an optional way to undo it.

export interface Toast {
  id: number;
  text: string;
  tone: 'ok' | 'bad';
  action?: { label: string; run: () => void };
}

const SHOWN_MS = 8000;
let list = $state.raw<Toast[]>([]);
let last = 0;

export const toasts = {
  get list(): Toast[] {
    return list;
  },
};

/** Show a message for 8 s; a screen reader reads it. Errors stay until they are closed. */
export function showToast(text: string, options: { tone?: 'ok' | 'bad'; action?: Toast['action'] } = {}): void {
  last += 1;
  const toast: Toast = { id: last, text, tone: options.tone ?? 'ok', action: options.action };
  list = [...list.slice(-3), toast];
  if (toast.tone === 'ok') setTimeout(() => closeToast(toast.id), SHOWN_MS);
}

export function closeToast(id: number): void {
  list = list.filter((toast) => toast.id !== id);
}
