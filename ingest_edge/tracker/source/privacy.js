const KEY = 'pharos_ignore';

// Asked at every event and at every request: an opt-out in another tab holds here at once.
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
