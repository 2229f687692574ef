import { setTimeout as sleep } from 'node:timers/promises';

/** Longer than any expected result takes, even on a very busy machine. */
export const PATIENCE_MS = 60_000;

/** A longer wait polls less often, because each poll may be a request or a statement that takes CPU time from the work. */
const pauseAfter = (waitedMs: number): number => Math.min(Math.max(10, waitedMs / 50), 100);

/** Polls until the answer is not null, undefined or false. Fails after the deadline with what it waited for. */
export const until = async <T>(
  what: string,
  ask: () => T | null | undefined | false | Promise<T | null | undefined | false>,
  timeoutMs = PATIENCE_MS,
): Promise<T> => {
  for (const start = performance.now(); ; ) {
    const answer = await ask();
    if (answer !== null && answer !== undefined && answer !== false) return answer;
    const waited = performance.now() - start;
    if (waited > timeoutMs) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`);
    await sleep(pauseAfter(waited));
  }
};
