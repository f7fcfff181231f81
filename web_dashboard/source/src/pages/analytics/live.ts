import { onChange, type Topic } from '../../live/changes';

/** Run `run` after a change of a topic, at most once in `ms`, and never while the page is hidden. Returns a function that ends it. */
export function onChangeAtMost(topics: readonly Topic[], ms: number, run: () => void): () => void {
  let last = Date.now();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = onChange(topics, () => {
    if (timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      last = Date.now();
      if (!document.hidden) run();
    }, Math.max(0, last + ms - Date.now()));
  });
  return () => {
    clearTimeout(timer);
    stop();
  };
}
