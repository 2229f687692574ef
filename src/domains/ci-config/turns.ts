import { setImmediate as nextTurn } from 'node:timers/promises';

const MOST_MS = 20;
/** When work on CI files last let others go first. */
let since = 0;

/** Lets other work of the process go first, if CI files have kept it waiting. For use between steps of long work. */
export const letOthersGo = async (): Promise<void> => {
  if (performance.now() - since < MOST_MS) return;
  await nextTurn();
  since = performance.now();
};
