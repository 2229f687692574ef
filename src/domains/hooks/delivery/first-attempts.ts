import type { Recorded } from './recorder.ts';

/** An attempt that has ended. Its delivery may not be in the database yet. */
export type Ended = Omit<Recorded, 'createdAt'>;

export interface FirstAttemptsOptions {
  /** Records an attempt of a delivery that is in the database. */
  readonly record: (attempt: Recorded) => void;
  /** Called with attempts that need no record of their own any more. */
  readonly settle: (attempts: readonly Ended[]) => void;
  /** Releases deliveries that are in the database as claimed, and were not sent. */
  readonly release: (ids: readonly string[]) => void;
  /** Called if the deliveries may be in the database as claimed, although dispatch failed. */
  readonly doubt: () => void;
  /** Whether a receiver lately took too long to wait for. */
  readonly isSlow: (webhookId: number) => boolean;
  /** Called with hooks whose receivers take too long to wait for, and with those that do not. */
  readonly onPace: (webhookIds: Iterable<number>, isSlow: boolean) => void;
}

/** How long dispatch waits for the next answer. */
const PATIENCE_MS = 50;
/** How long it waits in all. */
const LONGEST_MS = 300;

/**
 * The new deliveries of a dispatch, which are sent while it inserts them. An answer that comes soon enough is inserted
 * together with its delivery. The others are recorded after the commit, as those of any claimed delivery.
 */
export class FirstAttempts {
  readonly #options: FirstAttemptsOptions;
  /** The hooks of the deliveries that have not ended. */
  readonly #open = new Map<string, number>();
  readonly #ended = new Map<string, Ended>();
  /** Inserted by dispatch. */
  readonly #recorded: Ended[] = [];
  #unsent: string[] = [];
  #createdAt: string | null = null;
  #isVoid = false;
  #awaited = new Set<string>();
  #arrived: () => void = () => {};
  readonly #webhookIds: ReadonlySet<number>;
  readonly #startedAt = performance.now();
  #lastEndAt = this.#startedAt;
  /** No answer came for longer than dispatch waits. */
  #hasStalled = false;

  constructor(
    options: FirstAttemptsOptions,
    deliveries: readonly { readonly id: string; readonly webhook_id: number }[],
  ) {
    this.#options = options;
    for (const { id, webhook_id } of deliveries) this.#open.set(id, webhook_id);
    this.#webhookIds = new Set(this.#open.values());
  }

  /** True if the dispatch was rolled back. Its deliveries do not exist, and must not be sent. */
  get isVoid(): boolean {
    return this.#isVoid;
  }

  /** Notes the outcome of a delivery. */
  end(attempt: Ended): void {
    const { deliveryId } = attempt;
    if (!this.#open.delete(deliveryId)) return;
    const now = performance.now();
    this.#hasStalled ||= now - this.#lastEndAt >= PATIENCE_MS;
    this.#lastEndAt = now;
    if (this.#open.size === 0 && !this.#hasStalled) this.#options.onPace(this.#webhookIds, false);
    if (this.#createdAt !== null) this.#options.record({ ...attempt, createdAt: this.#createdAt });
    else this.#ended.set(deliveryId, attempt);
    this.#arrive(deliveryId);
  }

  /** Notes that a delivery will not be sent by this process for now. */
  giveUp(id: string): void {
    if (!this.#open.delete(id)) return;
    if (this.#createdAt !== null) this.#options.release([id]);
    else this.#unsent.push(id);
    this.#arrive(id);
  }

  /**
   * Waits until these deliveries have ended, as long as some end every few milliseconds. Does not wait for receivers that
   * were slow lately.
   */
  async wait(ids: readonly string[]): Promise<void> {
    const { isSlow, onPace } = this.#options;
    this.#awaited = new Set(
      ids.filter((id) => {
        const webhookId = this.#open.get(id);
        return webhookId !== undefined && !isSlow(webhookId);
      }),
    );
    if (this.#awaited.size === 0) return;
    const stalled = await new Promise<boolean>((resolve) => {
      const timer = setInterval(() => setImmediate(check), PATIENCE_MS / 5);
      const stop = (stalled: boolean) => {
        clearInterval(timer);
        this.#arrived = () => {};
        resolve(stalled);
      };
      // Runs after the answers that have arrived meanwhile were read.
      const check = () => {
        const now = performance.now();
        if (now - this.#lastEndAt >= PATIENCE_MS) stop(true);
        else if (now - this.#startedAt >= LONGEST_MS) stop(false);
      };
      this.#arrived = () => stop(false);
    });
    if (stalled) onPace(this.#open.values(), true);
  }

  /**
   * Returns the outcome of a delivery if it succeeded and its hook was healthy before, so that a row is all it needs. The
   * caller inserts that row.
   */
  take(id: string): Ended | null {
    const ended = this.#ended.get(id);
    if (!ended?.outcome.delivered || ended.knownFailures > 0) return null;
    this.#ended.delete(id);
    this.#recorded.push(ended);
    return ended;
  }

  /** The dispatch has committed. `createdAt` is the time of the deliveries as Postgres writes it. */
  commit(createdAt: string): void {
    this.#createdAt = createdAt;
    this.#options.settle(this.#recorded);
    for (const ended of this.#ended.values()) this.#options.record({ ...ended, createdAt });
    if (this.#unsent.length > 0) this.#options.release(this.#unsent);
    this.#unsent = [];
    this.#ended.clear();
  }

  /**
   * The dispatch was rolled back, and will be repeated. If its connection was lost at the commit, its deliveries may be in
   * the database all the same.
   */
  rollBack(): void {
    this.#isVoid = true;
    this.#options.doubt();
    this.#options.settle([...this.#recorded, ...this.#ended.values()]);
  }

  #arrive(id: string): void {
    if (this.#awaited.delete(id) && this.#awaited.size === 0) this.#arrived();
  }
}
