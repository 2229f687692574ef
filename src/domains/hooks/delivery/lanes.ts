import type { Room } from './claim.ts';
import type { Ended, FirstAttempts } from './first-attempts.ts';
import type { Outcome, Outgoing } from './send.ts';
import type { Target } from './targets.ts';

/** A delivery of this process whose outcome is not recorded yet. */
export interface Queued extends Outgoing {
  /** When it was created, as Postgres writes it. Empty for those of `batch`. */
  readonly createdAt: string;
  /** Set if dispatch inserts the delivery meanwhile. */
  readonly batch: FirstAttempts | null;
  readonly webhookId: number;
  readonly target: Target | Error;
  readonly probe: boolean;
  readonly knownFailures: number;
}

export interface LanesOptions {
  /** Returns null if there is nothing to record because the delivery was released. */
  readonly send: (queued: Queued) => Promise<Outcome | null>;
  /** Called when a hook that had more deliveries than room has room again. */
  readonly onRoom: () => void;
}

/** The limit of concurrent requests over all hooks. */
const MAX_ACTIVE = 1_024;
/**
 * A hook starts with a low limit, so that many hanging receivers cannot take all the room. It grows while the receiver
 * is fast.
 */
const FIRST_WIDTH = 4;
const MAX_WIDTH = 64;
const QUICK_MS = 1_000;
/** How long the limit of a hook is remembered after its last delivery. */
const REMEMBERED_MS = 5_000;
const MAX_REMEMBERED = 1_000;
/** While fewer deliveries than this are in memory, a new lane takes a whole dispatch of one hook. */
const PLENTY = 1_024;
const FIRST_DISPATCH = 128;
/**
 * Returns how many deliveries of a hook to hold in memory, by its concurrency limit, so that the next one is ready when
 * one ends. Fast hooks hold more, which lets deliveries be claimed and recorded in larger groups. Hooks that may hang
 * hold only what they need, because the total is bounded.
 */
const capacityOf = (width: number): number => width * (width > FIRST_WIDTH ? 6 : 2);

interface Lane {
  readonly webhookId: number;
  readonly queue: Queued[];
  /** Requests in progress. */
  active: number;
  /** Answered but not recorded. */
  unrecorded: number;
  width: number;
  /** Failures that are being recorded. Their effect on the hook is not known yet. */
  failing: number;
  /** The hook filled its room, or had none, so more deliveries may be waiting in the table. */
  hungry: boolean;
}

/**
 * The claimed deliveries by hook. Each hook has a lane with its own concurrency limit, so a slow hook delays only
 * itself.
 */
export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes = new Map<number, Lane>();
  /** By id. A dispatch that is repeated adds its deliveries again, while earlier ones may still be here. */
  readonly #held = new Map<string, Queued>();
  /** Lanes that wait only because of the limit over all hooks. */
  readonly #starved = new Set<Lane>();
  /** The limits of hooks whose lanes were dropped, and when. */
  readonly #widths = new Map<number, { readonly width: number; readonly at: number }>();
  #active = 0;
  #closed = false;
  #idle: (() => void)[] = [];

  constructor(options: LanesOptions) {
    this.#options = options;
  }

  /** The room of hooks without a lane. */
  readonly freeByDefault = capacityOf(FIRST_WIDTH);

  get size(): number {
    return this.#held.size;
  }

  ids(): string[] {
    return [...this.#held.keys()];
  }

  /** Returns the free room of each hook with a lane. */
  room(): Room[] {
    return [...this.#lanes.values()].map((lane) => ({ webhook_id: lane.webhookId, free: freeIn(lane) }));
  }

  /**
   * Returns how many deliveries of the hook may bypass the table: none while the lane knows of more that wait there. So
   * newer deliveries seldom overtake older ones, although no order is promised.
   */
  roomOf(webhookId: number): number {
    const lane = this.#lanes.get(webhookId);
    if (this.#closed || lane?.hungry || (lane?.failing ?? 0) > 0) return 0;
    if (lane) return freeIn(lane);
    return this.size < PLENTY ? FIRST_DISPATCH : this.freeByDefault;
  }

  add(queued: Queued): void {
    let lane = this.#lanes.get(queued.webhookId);
    if (!lane) {
      lane = {
        webhookId: queued.webhookId,
        queue: [],
        active: 0,
        unrecorded: 0,
        width: this.#firstWidthOf(queued.webhookId),
        failing: 0,
        hungry: false,
      };
      this.#lanes.set(queued.webhookId, lane);
    }
    this.#held.set(queued.id, queued);
    lane.queue.push(queued);
    this.#pump(lane);
  }

  /**
   * Notes the hooks that filled the room they were offered, or had none, because they may have more waiting. Compares
   * with the offer, since lanes may have grown or emptied during the claim.
   */
  filled(offered: readonly Room[], taken: readonly number[]): void {
    const room = new Map(offered.map(({ webhook_id, free }) => [webhook_id, free]));
    const counts = new Map<number, number>();
    for (const { webhook_id, free } of offered) if (free === 0) counts.set(webhook_id, 0);
    for (const id of taken) counts.set(id, (counts.get(id) ?? 0) + 1);
    let isRoom = false;
    for (const [webhookId, count] of counts) {
      if (count < (room.get(webhookId) ?? this.freeByDefault)) continue;
      const lane = this.#lanes.get(webhookId);
      if (lane && freeIn(lane) < lane.width) lane.hungry = true;
      else isRoom = true;
    }
    if (isRoom) this.#options.onRoom();
  }

  /** Handles recorded attempts. Returns the queued deliveries of blocked hooks, which it drops from the lanes. */
  settle(attempts: readonly Ended[], blocked: ReadonlySet<number> = new Set()): Queued[] {
    const touched = new Set<Lane>();
    for (const { deliveryId, webhookId, outcome } of attempts) {
      this.#held.delete(deliveryId);
      const lane = this.#lanes.get(webhookId);
      if (!lane) continue;
      lane.unrecorded--;
      if (!outcome.delivered) lane.failing--;
      touched.add(lane);
    }
    const released: Queued[] = [];
    let room = false;
    for (const lane of touched) {
      if (blocked.has(lane.webhookId)) released.push(...lane.queue.splice(0));
      this.#pump(lane);
      if (lane.hungry && freeIn(lane) >= capacityOf(lane.width) / 2) {
        lane.hungry = false;
        room = true;
      }
      this.#tidy(lane);
    }
    for (const queued of released) this.#drop(queued);
    if (room) this.#options.onRoom();
    this.#checkIdle();
    return released;
  }

  /** Drops a delivery that was released. */
  forget(queued: Queued): void {
    this.#drop(queued);
    this.#checkIdle();
  }

  #drop(queued: Queued): void {
    if (this.#held.get(queued.id) === queued) this.#held.delete(queued.id);
  }

  /** Stops starting deliveries. Returns those that were not started. */
  close(): Queued[] {
    this.#closed = true;
    const waiting = [...this.#lanes.values()].flatMap((lane) => lane.queue.splice(0));
    for (const queued of waiting) this.#drop(queued);
    this.#checkIdle();
    return waiting;
  }

  open(): void {
    this.#closed = false;
  }

  /** Resolves when every started delivery has been recorded or released. */
  idle(): Promise<void> {
    if (this.#held.size === 0) return Promise.resolve();
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

  /** Drops an empty lane. Its concurrency limit is remembered for a while, and then learned anew. */
  #tidy(lane: Lane): void {
    if (lane.active + lane.unrecorded + lane.queue.length > 0) return;
    if (!this.#lanes.delete(lane.webhookId)) return;
    if (this.#widths.size >= MAX_REMEMBERED) this.#widths.clear();
    this.#widths.set(lane.webhookId, { width: lane.width, at: performance.now() });
  }

  #firstWidthOf(webhookId: number): number {
    const known = this.#widths.get(webhookId);
    this.#widths.delete(webhookId);
    return known && performance.now() - known.at < REMEMBERED_MS ? known.width : FIRST_WIDTH;
  }

  #checkIdle(): void {
    if (this.#held.size > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

const nextWidth = (width: number, { delivered, durationMs }: Outcome): number => {
  if (!delivered) return Math.max(1, Math.floor(width / 2));
  return durationMs < QUICK_MS ? Math.min(MAX_WIDTH, width + 1) : Math.max(FIRST_WIDTH, Math.floor(width / 2));
};

const freeIn = (lane: Lane): number =>
  Math.max(0, capacityOf(lane.width) - lane.queue.length - lane.active - lane.unrecorded);
