// Menu, theme, copying of code, and search. Without this script the pages stay readable.
const find = (selector) => document.querySelector(selector);

// Menu on narrow screens.
const menu = find('.menu');
const navigation = find('#navigation');
menu.addEventListener('click', () => {
  const isOpen = navigation.classList.toggle('open');
  menu.setAttribute('aria-expanded', String(isOpen));
  if (isOpen) scrollTo(0, 0);
});
const current = navigation.querySelector('[aria-current]');
if (current && getComputedStyle(navigation).position === 'sticky') {
  navigation.scrollTop = current.offsetTop - navigation.clientHeight / 2;
}

// Theme: as the system says, light, dark.
const THEMES = ['system', 'light', 'dark'];
const themeButton = find('.theme');
function showTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = { system: '◐', light: '☀', dark: '☾' }[theme];
  const name = { system: 'as the system', light: 'light', dark: 'dark' }[theme];
  themeButton.title = `Colours: ${name}`;
  themeButton.setAttribute('aria-label', themeButton.title);
}
showTheme(document.documentElement.dataset.theme ?? 'system');
themeButton.addEventListener('click', () => {
  const now = document.documentElement.dataset.theme ?? 'system';
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === 'system') localStorage.removeItem('pharos-theme');
  else localStorage.setItem('pharos-theme', next);
  showTheme(next);
});

// A button on each block of code.
for (const block of document.querySelectorAll('.code')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    let text = block.querySelector('code').textContent;
    if (block.dataset.language === 'console') {
      text = text.split('\n').filter((line) => line.startsWith('$ ')).map((line) => `${line.slice(2)}\n`).join('');
    }
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Select and copy';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
  block.append(button);
}

// The heading that is being read.
const links = new Map([...document.querySelectorAll('.contents a')].map((link) => [link.hash.slice(1), link]));
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const link of links.values()) link.classList.remove('read');
    links.get(entry.target.id)?.classList.add('read');
  }
}, { rootMargin: '-10% 0px -75% 0px' });
for (const heading of document.querySelectorAll('article h2[id], article h3[id]')) watcher.observe(heading);

// Search: every word must occur in a passage; words in its heading and in the title of its page count more.
const input = find('#search');
const results = find('#results');
const MOST_RESULTS = 12;
let passages;
let chosen = -1;

async function loadPassages() {
  passages ??= fetch('/docs/search.json').then((answer) => answer.json()).then((pages) => pages.flatMap(
    ([address, title, parts]) => parts.map(([anchor, heading, text]) => ({
      url: `/docs${address === 'index' ? '' : `/${address}`}${anchor ? `#${anchor}` : ''}`,
      title, heading, text,
      names: `${title} ${heading}`.toLowerCase(),
      words: text.toLowerCase(),
      // People look for what they can do first, and for how it is built last.
      first: (anchor ? 0 : 1) + (/^(index|quick-start|concepts|guides)/.test(address) ? 8 : 0)
        - (/^(design|architecture|testing|glossary)/.test(address) ? 4 : 0),
    })),
  ));
  return passages;
}

function rate(passage, words) {
  let points = passage.first;
  for (const word of words) {
    if (passage.names.includes(word)) points += passage.heading.toLowerCase().includes(word) ? 12 : 6;
    else if (passage.words.includes(word)) points += 1;
    else return 0;
  }
  return Math.max(points, 1);
}

function excerpt(passage, words) {
  const at = Math.max(0, passage.words.indexOf(words.find((word) => passage.words.includes(word)) ?? '') - 50);
  return `${at ? '… ' : ''}${passage.text.slice(at, at + 150)}`;
}

function showResults(found, words) {
  chosen = -1;
  results.replaceChildren(...found.map(({ passage }, at) => {
    const link = document.createElement('a');
    link.href = passage.url;
    link.id = `result-${at}`;
    link.tabIndex = -1;
    link.setAttribute('role', 'option');
    const name = document.createElement('strong');
    name.textContent = passage.heading ? `${passage.title} › ${passage.heading}` : passage.title;
    const text = document.createElement('span');
    text.textContent = excerpt(passage, words);
    link.append(name, text);
    return link;
  }));
  if (!found.length) {
    const none = document.createElement('p');
    none.className = 'none';
    none.setAttribute('role', 'option');
    none.setAttribute('aria-disabled', 'true');
    none.textContent = 'Nothing found';
    results.append(none);
  }
  openResults(true);
}

function openResults(isOpen) {
  results.hidden = !isOpen;
  input.setAttribute('aria-expanded', String(isOpen));
}

function choose(step) {
  const items = [...results.querySelectorAll('a')];
  if (!items.length) return;
  chosen = (chosen + step + items.length) % items.length;
  items.forEach((item, at) => item.setAttribute('aria-selected', String(at === chosen)));
  items[chosen].scrollIntoView({ block: 'nearest' });
  input.setAttribute('aria-activedescendant', items[chosen].id);
}

input.addEventListener('focus', loadPassages);
input.addEventListener('input', async () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return openResults(false);
  const all = await loadPassages();
  const found = all.map((passage) => ({ passage, points: rate(passage, words) })).filter(({ points }) => points > 0);
  showResults(found.sort((a, b) => b.points - a.points).slice(0, MOST_RESULTS), words);
});
input.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    choose(event.key === 'ArrowDown' ? 1 : -1);
  } else if (event.key === 'Enter') {
    const link = results.querySelectorAll('a')[Math.max(chosen, 0)];
    if (link && !results.hidden) { openResults(false); location.assign(link.href); }
  } else if (event.key === 'Escape') {
    openResults(false);
    input.blur();
  }
});
document.addEventListener('click', (event) => { if (!event.target.closest('.search')) openResults(false); });
results.addEventListener('click', () => openResults(false));
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? '')) {
    event.preventDefault();
    input.focus();
  }
});
