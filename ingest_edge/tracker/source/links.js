import { event } from './pages.js';

const FILE =
  /\.(7z|aac|apk|avi|bz2|csv|deb|dmg|docx?|epub|exe|flac|gz|iso|jar|key|midi?|mkv|mov|mp[34]|mpe?g|msi|od[pst]|ogg|pdf|pkg|pp[st]x?|rar|rpm|rtf|tar|tgz|txt|wav|webm|wm[av]|xlsx?|xz|zip)$/i;

// Reports clicks with the left and middle button. `composedPath` includes links inside open shadow roots, unlike
// `closest`.
export const click = (pressed) => {
  if (pressed.button > 1) return;
  const link = pressed.composedPath().find((node) => node.localName === 'a');
  if (!link) return;
  const { protocol } = link;
  const isWeb = /^http/.test(protocol);
  const isSaved = link.hasAttribute('download') && (isWeb || /^(blob|data):/.test(protocol));
  const name =
    isSaved || (isWeb && FILE.test(link.pathname))
      ? 'File Download'
      : isWeb && link.host !== location.host
        ? 'Outbound Link: Click'
        : '';
  // `blob:` URLs say nothing, and `data:` URLs contain the whole file: the event gets the file's name instead.
  if (name) event({ name, url: isWeb ? link.href.slice(0, 2000) : link.download || protocol }, 0);
};
