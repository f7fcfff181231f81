// Catches all errors: none of the tracker's may reach the page or its console.
export const guard = (callback) => (...args) => {
  try {
    return callback(...args);
  } catch {}
};

export const on = (target, type, callback, capture) => target.addEventListener(type, guard(callback), capture);
