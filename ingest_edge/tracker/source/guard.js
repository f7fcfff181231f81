// Whatever goes wrong in here must not reach the page, nor its console.
export const guard = (work) => (...given) => {
  try {
    return work(...given);
  } catch {}
};

export const on = (target, type, work, capture) => target.addEventListener(type, guard(work), capture);
