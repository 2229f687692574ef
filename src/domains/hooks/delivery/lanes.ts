import type { Room } from './claim.ts';
import type { Recorded } from './recorder.ts';
import type { Outcome, Outgoing } from './send.ts';
import type { Target } from './targets.ts';

/** A delivery of this process that has not been recorded yet. */
export interface Queued extends Outgoing {
  readonly webhookId: number;
  readonly target: Target | Error;
  readonly probe: boolean;
  readonly knownFailures: number;
}

export interface LanesOptions {
  /** Null where nothing is to be recorded: it was given back. */
  readonly send: (queued: Queued) => Promise<Outcome | null>;
  /** There is room again for a hook that had more waiting than it could take. */
  readonly onRoom: () => void;
}

/** All that may be under way at a time. */
const MAX_ACTIVE = 1_024;
/** A hook begins narrow, so that many that hang do not take all the room, and widens while its receiver is quick. */
const FIRST_WIDTH = 4;
const MAX_WIDTH = 64;
const QUICK_MS = 1_000;
/**
 * How much of a hook is here at a time, by what can be under way: the next is at hand when one ends. More of those that
 * are quick, whose deliveries are taken and written many at once then; of those that may hang no more than is needed,
 * as there is room for so many in all.
 */
const capacityOf = (width: number): number => width * (width > FIRST_WIDTH ? 6 : 2);

interface Lane {
  readonly webhookId: number;
  readonly queue: Queued[];
  /** Under way. */
  active: number;
  /** Answered, but not yet written. */
  unrecorded: number;
  width: number;
  /** A failure is being recorded: what it does to the hook is not known yet. */
  failing: number;
  /** It took all it had room for: there may be more. */
  hungry: boolean;
}

/** The deliveries at hand by hook: each hook has a lane of its own width, so that a slow one holds up none but itself. */
export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes = new Map<number, Lane>();
  readonly #ids = new Set<string>();
  /** Lanes that could go on if there were not so much under way in all. */
  readonly #starved = new Set<Lane>();
  #active = 0;
  #closed = false;
  #idle: (() => void)[] = [];

  constructor(options: LanesOptions) {
    this.#options = options;
  }

  /** What hooks without a lane have room for. */
  readonly freeByDefault = capacityOf(FIRST_WIDTH);

  get size(): number {
    return this.#ids.size;
  }

  ids(): string[] {
    return [...this.#ids];
  }

  /** How many more each hook with a lane may take. */
  room(): Room[] {
    return [...this.#lanes.values()].map((lane) => ({ webhook_id: lane.webhookId, free: freeIn(lane) }));
  }

  add(queued: Queued): void {
    let lane = this.#lanes.get(queued.webhookId);
    if (!lane) {
      lane = {
        webhookId: queued.webhookId,
        queue: [],
        active: 0,
        unrecorded: 0,
        width: FIRST_WIDTH,
        failing: 0,
        hungry: false,
      };
      this.#lanes.set(queued.webhookId, lane);
    }
    this.#ids.add(queued.id);
    lane.queue.push(queued);
    if (freeIn(lane) === 0) lane.hungry = true;
    this.#pump(lane);
  }

  /**
   * Hooks that took all the room they were offered may have more waiting. Judged by the offer: while the deliveries were
   * taken their lanes may have widened, or have emptied.
   */
  filled(offered: readonly Room[], taken: readonly number[]): void {
    const room = new Map(offered.map(({ webhook_id, free }) => [webhook_id, free]));
    let isRoom = false;
    for (const [webhookId, { length }] of Map.groupBy(taken, (id) => id)) {
      if (length < (room.get(webhookId) ?? this.freeByDefault)) continue;
      const lane = this.#lanes.get(webhookId);
      if (lane && freeIn(lane) < lane.width) lane.hungry = true;
      else isRoom = true;
    }
    if (isRoom) this.#options.onRoom();
  }

  /** Attempts have been written. Returns what waited for hooks that are blocked now: it is no longer here. */
  settle(attempts: readonly Recorded[], blocked: ReadonlySet<number>): string[] {
    const touched = new Set<Lane>();
    for (const { deliveryId, webhookId, outcome } of attempts) {
      this.#ids.delete(deliveryId);
      const lane = this.#lanes.get(webhookId);
      if (!lane) continue;
      lane.unrecorded--;
      if (!outcome.delivered) lane.failing--;
      touched.add(lane);
    }
    const released: string[] = [];
    let room = false;
    for (const lane of touched) {
      if (blocked.has(lane.webhookId)) for (const { id } of lane.queue.splice(0)) released.push(id);
      this.#pump(lane);
      if (lane.hungry && freeIn(lane) >= capacityOf(lane.width) / 2) {
        lane.hungry = false;
        room = true;
      }
      this.#tidy(lane);
    }
    for (const id of released) this.#ids.delete(id);
    if (room) this.#options.onRoom();
    this.#checkIdle();
    return released;
  }

  /** It was given back, and is not this process's any more. */
  forget(id: string): void {
    this.#ids.delete(id);
    this.#checkIdle();
  }

  /** Begins nothing more. Returns what had not begun. */
  close(): string[] {
    this.#closed = true;
    const waiting: string[] = [];
    for (const lane of this.#lanes.values()) for (const { id } of lane.queue.splice(0)) waiting.push(id);
    for (const id of waiting) this.#ids.delete(id);
    return waiting;
  }

  open(): void {
    this.#closed = false;
  }

  /** Resolves when all that was begun has been recorded or given back. */
  idle(): Promise<void> {
    if (this.#ids.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #pump(lane: Lane): void {
    while (!this.#closed && lane.failing === 0 && lane.active < lane.width) {
      if (this.#active >= MAX_ACTIVE) {
        if (lane.queue.length > 0) this.#starved.add(lane);
        return;
      }
      const next = lane.queue.shift();
      if (!next) return;
      lane.active++;
      this.#active++;
      void this.#run(lane, next);
    }
  }

  async #run(lane: Lane, queued: Queued): Promise<void> {
    const outcome = await this.#options.send(queued);
    lane.active--;
    this.#active--;
    if (outcome) {
      lane.unrecorded++;
      if (!outcome.delivered) lane.failing++;
      lane.width = nextWidth(lane.width, outcome);
    }
    this.#pump(lane);
    this.#tidy(lane);
    for (const starved of this.#starved) {
      if (this.#active >= MAX_ACTIVE) break;
      this.#starved.delete(starved);
      this.#pump(starved);
    }
  }

  /** A lane is kept while its hook has something here: its width is learnt anew after a rest. */
  #tidy(lane: Lane): void {
    if (lane.active + lane.unrecorded + lane.queue.length === 0) this.#lanes.delete(lane.webhookId);
  }

  #checkIdle(): void {
    if (this.#ids.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

const nextWidth = (width: number, { delivered, durationMs }: Outcome): number => {
  if (!delivered) return Math.max(1, Math.floor(width / 2));
  return durationMs < QUICK_MS ? Math.min(MAX_WIDTH, width + 1) : Math.max(FIRST_WIDTH, Math.floor(width / 2));
};

const freeIn = (lane: Lane): number =>
  Math.max(0, capacityOf(lane.width) - lane.queue.length - lane.active - lane.unrecorded);
