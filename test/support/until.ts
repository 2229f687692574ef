import { setTimeout as sleep } from 'node:timers/promises';

/**
 * How often a test that looks at the clock is tried again: the machine may have been busy with other tests. What is slow
 * by itself is slow each time.
 */
export const BUSY = 2;

/** Asks again until the answer is neither null, undefined nor false; fails with what it waited for after the deadline. */
export const until = async <T>(
  what: string,
  ask: () => T | null | undefined | false | Promise<T | null | undefined | false>,
  timeoutMs = 15_000,
): Promise<T> => {
  for (const deadline = performance.now() + timeoutMs; ; ) {
    const answer = await ask();
    if (answer !== null && answer !== undefined && answer !== false) return answer;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`);
    await sleep(10);
  }
};
