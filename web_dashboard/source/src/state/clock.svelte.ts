// The present time for texts such as "3 min ago". It ticks only while the page is visible.

let now = $state(Date.now());

export const clock = {
  /** Milliseconds since 1970, at most 10 s old. */
  get now(): number {
    return now;
  },
};

const tick = () => {
  if (!document.hidden) now = Date.now();
};
setInterval(tick, 10_000);
document.addEventListener('visibilitychange', tick);
