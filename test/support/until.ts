import { setTimeout as sleep } from 'node:timers/promises';

/** Waits until `check` returns something other than false, null or undefined, and returns it. Throws after the deadline. */
export const until = async <T>(
  what: string,
  check: () => T | Promise<T>,
  { timeoutMs = 10_000, everyMs = 10 } = {},
): Promise<T> => {
  for (const deadline = performance.now() + timeoutMs; ; await sleep(everyMs)) {
    const value = await check();
    if (value !== false && value !== null && value !== undefined) return value;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain until ${what}`);
  }
};
