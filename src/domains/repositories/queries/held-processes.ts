import type { Context } from '#platform/context.ts';
import { tooManyRequests } from '#platform/errors.ts';

const RETRY_SECONDS = 10;

/**
 * Bounds what takes a process of git for as long as its client reads: for one caller, and for all in this process.
 * Each call of what it returns takes one, and returns what lets go of it. @throws DomainError `too_many_requests`
 */
export const boundProcesses = (ofCaller: number, ofAll: number): ((ctx: Context) => () => void) => {
  const held = new Map<string, number>();
  let all = 0;
  return ({ actor, client }) => {
    const caller = actor.userId === null ? `ip:${client.ip ?? ''}` : `user:${actor.userId}`;
    const own = held.get(caller) ?? 0;
    if (own >= ofCaller || all >= ofAll) {
      throw tooManyRequests(RETRY_SECONDS);
    }
    held.set(caller, own + 1);
    all += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      all -= 1;
      const left = (held.get(caller) ?? 1) - 1;
      if (left === 0) held.delete(caller);
      else held.set(caller, left);
    };
  };
};
