import { mapLimit } from '#platform/concurrency/map-limit.ts';
import type { Actor } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import type { Logger } from '#platform/log.ts';

interface RechecksOptions<Group, Viewer> {
  /** Returns the indexes of the actors whose credentials are still valid. */
  readonly stillValid: (actors: readonly Actor[]) => Promise<ReadonlySet<number>>;
  /** Rejects with a DomainError when the viewer may no longer follow the group. */
  readonly open: (group: Group, viewer: Viewer) => Promise<unknown>;
  /** `over` means that the viewer lost access. Otherwise the check failed, and they may reconnect. */
  readonly expel: (group: Group, viewer: Viewer, over: boolean) => void;
  readonly log: Logger;
}

/** Concurrent re-checks. Kept low because the pool has other work. */
const CONCURRENCY = 4;
/** Time between two rounds. It bounds the cost of thousands of viewers who never see the events of a busy topic. */
const ROUND_MS = 500;

/**
 * Viewers to re-check because an event was hidden from them. Somebody may lack one event and still follow the rest. The
 * re-check runs beside the event queue, for all such viewers together, and at most twice a second.
 */
export class Rechecks<Group, Viewer extends { readonly actor: Actor }> {
  readonly #options: RechecksOptions<Group, Viewer>;
  #waiting = new Map<Group, Set<Viewer>>();
  #busy = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: RechecksOptions<Group, Viewer>) {
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
    const waiting = [...this.#waiting].flatMap(([group, viewers]) => [...viewers].map((viewer) => ({ group, viewer })));
    this.#waiting = new Map();
    const { stillValid, open, expel, log } = this.#options;
    try {
      const valid = await stillValid(waiting.map(({ viewer }) => viewer.actor));
      await mapLimit([...waiting.entries()], CONCURRENCY, async ([index, { group, viewer }]) => {
        const over = !valid.has(index) || (await open(group, viewer).then(() => false, isRefusal));
        if (over) expel(group, viewer, true);
      });
    } catch (error) {
      // Disconnecting viewers is safer than letting them follow without access. They can resume with a cursor.
      log.error({ err: error, viewers: waiting.length }, 'the access of subscribers could not be re-checked');
      for (const { group, viewer } of waiting) expel(group, viewer, false);
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
