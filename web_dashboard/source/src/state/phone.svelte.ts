// Whether the window is as narrow as a phone, for what CSS cannot decide.
import { MediaQuery } from 'svelte/reactivity';

const query = new MediaQuery('(max-width: 48rem)');

export const phone = {
  get isNarrow(): boolean {
    return query.current;
  },
};
