// Before the first paint: the theme that was chosen here or in the dashboard.
{
  const chosen = localStorage.getItem('pharos-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
}
