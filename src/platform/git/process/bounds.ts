import { currentCaller } from '../../caller/caller.ts';
import { DomainError, tooManyRequests } from '../../errors.ts';
import { GitError } from '../git-error.ts';

/** The number of concurrent processes for short calls. Fetches and pushes have the same number each. */
export const DEFAULT_PROCESSES = 24;

const RETRY_SECONDS = 10;

export type Release = () => void;

export interface Bound {
  /**
   * Waits for a free slot.
   *
   * @throws DomainError `too_many_requests` or `unavailable` if too many callers wait already
   * @throws GitError `aborted`
   */
  take(signal?: AbortSignal): Promise<Release>;
  /** Takes a slot at once. @throws DomainError `too_many_requests` or `unavailable` if none is free */
  takeNow(): Release;
  /** Returns the number of slots in use. */
  taken(): number;
}

/**
 * Limits the number of concurrent git processes of each kind. Each caller (a user, or an address without a credential)
 * gets only a part of them, so that no caller can take them all. The jobs of the hub itself count only against the
 * total, and wait as long as needed.
 */
export interface ProcessBounds {
  /** Short calls, each of which ends by itself. */
  readonly questions: Bound;
  readonly fetches: Bound;
  readonly pushes: Bound;
  /** Large files, for as long as a client reads them. */
  readonly files: Bound;
  readonly archives: Bound;
}

export const createProcessBounds = (processes: number): ProcessBounds => {
  const ofCaller = Math.max(1, Math.floor(processes / 3));
  const waiting = { ofCaller: 100, ofAll: 1_000 };
  return {
    questions: createBound({ ofCaller, ofAll: processes, waiting }),
    fetches: createBound({ ofCaller, ofAll: processes, waiting }),
    pushes: createBound({ ofCaller, ofAll: processes, waiting }),
    files: createBound({ ofCaller: 10, ofAll: 40 }),
    archives: createBound({ ofCaller: 4, ofAll: 16 }),
  };
};

export interface BoundOptions {
  readonly ofCaller: number;
  readonly ofAll: number;
  /** How many more may wait for a slot. */
  readonly waiting?: { readonly ofCaller: number; readonly ofAll: number };
}

interface Waiter {
  start(): void;
}

export const createBound = ({ ofCaller, ofAll, waiting = { ofCaller: 0, ofAll: 0 } }: BoundOptions): Bound => {
  const held = new Map<string | null, number>();
  let all = 0;
  // In the order in which callers get their next slot.
  const queues = new Map<string | null, Waiter[]>();
  let queued = 0;

  const mayStart = (caller: string | null) => all < ofAll && (caller === null || (held.get(caller) ?? 0) < ofCaller);

  const start = (caller: string | null): Release => {
    all += 1;
    held.set(caller, (held.get(caller) ?? 0) + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      all -= 1;
      const left = (held.get(caller) ?? 1) - 1;
      if (left === 0) held.delete(caller);
      else held.set(caller, left);
      startNext();
    };
  };

  const startNext = () => {
    for (const [caller, queue] of queues) {
      if (!mayStart(caller)) continue;
      const next = queue.shift();
      queues.delete(caller);
      if (queue.length > 0) queues.set(caller, queue); // after the others
      if (!next) continue;
      queued -= 1;
      next.start();
      return;
    }
  };

  const refuse = (caller: string | null): never => {
    const isOwn = caller !== null && ((held.get(caller) ?? 0) >= ofCaller || queues.has(caller));
    if (isOwn) throw tooManyRequests(RETRY_SECONDS);
    throw new DomainError('unavailable', 'The hub is busy with other repositories. Try again in a moment.', {
      retryAfterSeconds: RETRY_SECONDS,
    });
  };

  return {
    taken: () => all,
    takeNow() {
      const caller = currentCaller();
      return mayStart(caller) ? start(caller) : refuse(caller);
    },
    async take(signal) {
      const caller = currentCaller();
      // Waiting calls of the same caller come first.
      if (mayStart(caller) && !queues.has(caller)) return start(caller);
      const queue = queues.get(caller) ?? [];
      if (caller !== null && (queue.length >= waiting.ofCaller || queued >= waiting.ofAll)) return refuse(caller);
      const { promise, resolve, reject } = Promise.withResolvers<Release>();
      const onAbort = () => {
        const at = queue.indexOf(waiter);
        if (at === -1) return;
        queue.splice(at, 1);
        queued -= 1;
        if (queue.length === 0 && queues.get(caller) === queue) queues.delete(caller);
        reject(new GitError('aborted', 'The repository operation was cancelled'));
      };
      const waiter: Waiter = {
        start: () => {
          signal?.removeEventListener('abort', onAbort);
          resolve(start(caller));
        },
      };
      queue.push(waiter);
      queues.set(caller, queue);
      queued += 1;
      signal?.addEventListener('abort', onAbort, { once: true });
      if (signal?.aborted) onAbort();
      return promise;
    },
  };
};
