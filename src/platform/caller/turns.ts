import { DomainError, tooManyRequests } from '../errors.ts';
import { currentCaller } from './caller.ts';

const RETRY_SECONDS = 10;

export type Release = () => void;

/**
 * Slots for work that costs much, in which callers (users, or addresses without a credential) take turns. The hub's own
 * work counts only against the total, and is never refused.
 */
export interface Turns {
  /**
   * Waits for a free slot.
   *
   * @throws DomainError `too_many_requests` or `unavailable` if too many callers wait already
   * @throws what `aborted` makes, once the signal is aborted
   */
  take(signal?: AbortSignal): Promise<Release>;
  /** Takes a slot at once. @throws DomainError `too_many_requests` or `unavailable` if none is free */
  takeNow(): Release;
  /** Returns the number of slots in use. */
  taken(): number;
  /** Returns the number of calls that wait for a slot. */
  waiting(): number;
}

export interface TurnLimits {
  readonly ofCaller: number;
  readonly ofAll: number;
  /** How many more may wait for a slot. */
  readonly waiting?: { readonly ofCaller: number; readonly ofAll: number };
}

interface TurnErrors {
  /** The message of the refusal while other callers have all slots. */
  readonly busy: string;
  aborted(): Error;
}

interface Waiter {
  start(): void;
}

export const createTurns = (
  { ofCaller, ofAll, waiting = { ofCaller: 0, ofAll: 0 } }: TurnLimits,
  { busy, aborted }: TurnErrors,
): Turns => {
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
    throw new DomainError('unavailable', busy, { retryAfterSeconds: RETRY_SECONDS });
  };

  return {
    taken: () => all,
    waiting: () => queued,
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
        reject(aborted());
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
