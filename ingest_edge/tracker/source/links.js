import { event } from './pages.js';

const FILE =
  /\.(7z|aac|apk|avi|bz2|csv|deb|dmg|docx?|epub|exe|flac|gz|iso|jar|key|midi?|mkv|mov|mp[34]|mpe?g|msi|od[pst]|ogg|pdf|pkg|pp[st]x?|rar|rpm|rtf|tar|tgz|txt|wav|webm|wm[av]|xlsx?|xz|zip)$/i;

// Left and middle button. `composedPath` sees links inside of open shadow roots, where `closest` does not.
export const click = (pressed) => {
  if (pressed.button > 1) return;
  const link = pressed.composedPath().find((node) => node.localName === 'a');
  if (!link || !/^http/.test(link.protocol)) return;
  const name = FILE.test(link.pathname)
    ? 'File Download'
    : link.host !== location.host
      ? 'Outbound Link: Click'
      : '';
  if (name) event({ name, url: link.href.slice(0, 2000) }, 0);
};
