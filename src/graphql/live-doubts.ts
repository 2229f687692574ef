import type { Actor } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';
import { mapLimit } from '#platform/map-limit.ts';

interface DoubtsOptions<Group, Viewer> {
  /** Which of the actors (their indexes) could still come in. */
  readonly stillValid: (actors: readonly Actor[]) => Promise<ReadonlySet<number>>;
  /** Fails with a DomainError for whoever may no longer follow. */
  readonly open: (group: Group, viewer: Viewer) => Promise<unknown>;
  /** `over`: he may not come back; else it could not be found out, and he may. */
  readonly expel: (group: Group, viewer: Viewer, over: boolean) => void;
  readonly log: Logger;
}

/** Answers to "may he still follow?" that are sought at once: the pool has other work. */
const CONCURRENCY = 4;
/** Between two rounds: thousands who are never shown the events of a busy topic cost this often and no more. */
const ROUND_MS = 500;

/**
 * Those who were not shown an event: one may be hidden from somebody who may follow the rest. Whether they still may is
 * found out beside the queue of events, for all of them together and at most twice a second.
 */
export class Doubts<Group, Viewer extends { readonly actor: Actor }> {
  readonly #options: DoubtsOptions<Group, Viewer>;
  #waiting = new Map<Group, Set<Viewer>>();
  #busy = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DoubtsOptions<Group, Viewer>) {
    this.#options = options;
  }

  add(group: Group, viewer: Viewer): void {
    const viewers = this.#waiting.get(group);
    if (viewers) viewers.add(viewer);
    else this.#waiting.set(group, new Set([viewer]));
    if (!this.#busy) void this.#round();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#waiting.clear();
  }

  async #round(): Promise<void> {
    this.#busy = true;
    const doubts = [...this.#waiting].flatMap(([group, viewers]) => [...viewers].map((viewer) => ({ group, viewer })));
    this.#waiting = new Map();
    const { stillValid, open, expel, log } = this.#options;
    try {
      const valid = await stillValid(doubts.map(({ viewer }) => viewer.actor));
      await mapLimit([...doubts.entries()], CONCURRENCY, async ([index, { group, viewer }]) => {
        const over = !valid.has(index) || (await open(group, viewer).then(() => false, isRefusal));
        if (over) expel(group, viewer, true);
      });
    } catch (error) {
      // Better to come back with a cursor than to follow what one may not.
      log.error({ err: error, viewers: doubts.length }, 'it could not be found out who may still follow');
      for (const { group, viewer } of doubts) expel(group, viewer, false);
    }
    this.#timer = setTimeout(() => {
      this.#busy = false;
      if (this.#waiting.size > 0) void this.#round();
    }, ROUND_MS);
    this.#timer.unref();
  }
}

const isRefusal = (error: unknown): true => {
  if (error instanceof DomainError) return true;
  throw error;
};
