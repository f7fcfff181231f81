const KEY = 'pharos_ignore';

// Checked for each event and each request, so that an opt-out in another tab takes effect at once.
export const silent = () => {
  if (navigator.globalPrivacyControl) return true;
  try {
    return localStorage[KEY] === 'true';
  } catch {
    return false;
  }
};

export const optOut = () => {
  localStorage[KEY] = 'true';
};

export const optIn = () => {
  delete localStorage[KEY];
};
