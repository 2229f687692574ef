import { setTimeout as sleep } from 'node:timers/promises';

/** Longer than anything takes that does come about, also on a machine that does twenty things at once. */
export const PATIENCE_MS = 60_000;

/** Asks again until the answer is neither null, undefined nor false; fails with what it waited for after the deadline. */
export const until = async <T>(
  what: string,
  ask: () => T | null | undefined | false | Promise<T | null | undefined | false>,
  timeoutMs = PATIENCE_MS,
): Promise<T> => {
  for (const deadline = performance.now() + timeoutMs; ; ) {
    const answer = await ask();
    if (answer !== null && answer !== undefined && answer !== false) return answer;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`);
    await sleep(10);
  }
};
