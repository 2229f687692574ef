import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { GitError } from '#platform/git/git-error.ts';
import { PATTERN_NAMES, type Pattern, type PushRule } from './model.ts';
import { flagsOf, testOf } from './patterns.ts';

/** RE2 is linear, but a bad pattern can take 50 µs per character. Longer texts are matched in a worker thread. */
const MAX_INLINE = 256;
const MEMORY_MEBIBYTES = 256;

/** Matches the patterns of a rule against texts of any length without blocking the event loop. One call at a time. */
export interface Matcher {
  has(pattern: Pattern): boolean;
  /** Returns true if the pattern matches anywhere in the text. @throws GitError `timeout` */
  finds(pattern: Pattern, subject: string): Promise<boolean>;
  close(): Promise<void>;
}

export const createMatcher = (rule: PushRule, timeLeftMs: () => number): Matcher => {
  const tests = new Map(
    PATTERN_NAMES.flatMap((name) => {
      const test = testOf(name, rule[name]);
      return test ? [[name, test] as const] : [];
    }),
  );
  let worker: Worker | null = null;

  const start = (): Worker => {
    const started = new Worker(new URL('./pattern-worker.ts', import.meta.url), {
      workerData: [...tests.keys()].map((each) => ({ name: each, text: rule[each], flags: flagsOf(each) })),
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MEBIBYTES },
    });
    // The worker may run out of memory after the caller has given up. An unhandled error event would crash the process.
    return started.on('error', () => {});
  };

  const ask = async (name: Pattern, subject: string): Promise<boolean> => {
    worker ??= start();
    const signal = AbortSignal.timeout(timeLeftMs());
    const answer = once(worker, 'message', { signal });
    worker.postMessage({ name, subject });
    try {
      const [found] = await answer;
      return found === true;
    } catch (cause) {
      if (!signal.aborted) throw cause;
      throw new GitError('timeout', 'The push takes too long to check', { cause });
    }
  };

  return {
    has: (pattern) => tests.has(pattern),
    finds: async (pattern, subject) =>
      subject.length > MAX_INLINE && tests.has(pattern)
        ? ask(pattern, subject)
        : (tests.get(pattern)?.(subject) ?? false),
    close: async () => {
      await worker?.terminate();
    },
  };
};
