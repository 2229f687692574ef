import { setTimeout as sleep } from 'node:timers/promises';

/** Longer than any expected result takes, even on a very busy machine. */
export const PATIENCE_MS = 60_000;

/** Polls until the answer is not null, undefined or false. Fails after the deadline with what it waited for. */
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
