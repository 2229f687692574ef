import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { brokenConstraint, isConflict } from '#platform/db/failures.ts';
import { forgetKeys, type IngestKey } from './keys.ts';
import type { Arrival } from './model.ts';
import { type Category, Quotas } from './quotas.ts';
import { Refusal, unknownKey } from './refusal.ts';
import { countRefused, queueDigest, readBacklog, type StoredGroup, storeGroup } from './storing.ts';

interface Waiting {
  readonly key: IngestKey;
  readonly category: Category;
  readonly arrival: Arrival;
  /** The size of the body as it is stored. */
  readonly bytes: number;
  readonly resolve: (stored: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** The most that one statement stores. */
const MAX_ROWS = 500;
const MAX_BYTES = 8 * 1024 * 1024;
const MAX_ATTEMPTS = 4;
/** While groups follow one another, one of them queues the digest so often. */
const QUEUE_MS = 250;
const BACKLOG_SECONDS = 30;
const UPKEEP_MS = 1_000;

/**
 * Stores what applications send. Requests that arrive while a commit is under way wait for the next one, so one commit
 * serves many of them (docs/decisions/0047). A promise resolves when its envelope is durable.
 */
export class Intake {
  readonly #ctx: Context;
  readonly #quotas = new Quotas();
  #waiting: Waiting[] = [];
  #storing: Promise<void> = Promise.resolve();
  #isStoring = false;
  #upkeep: NodeJS.Timeout | null = null;
  #backlog = 0;
  #isLimited = false;

  constructor(ctx: Context) {
    this.#ctx = ctx;
  }

  /**
   * Stores an envelope and queues its digest.
   *
   * @throws Refusal 429 above a quota, 401 if the key has been deleted meanwhile, 503 if nothing can be stored
   */
  async accept(key: IngestKey, category: Category, arrival: Arrival): Promise<void> {
    const settings = await getSettings(this.#ctx);
    const limits = { key: settings.error_tracking_key_limit, project: settings.error_tracking_project_limit };
    const isFull = settings.error_tracking_backlog_limit > 0 && this.#backlog >= settings.error_tracking_backlog_limit;
    this.#isLimited = limits.key > 0 || limits.project > 0;
    const refusal = isFull ? tooBusy() : this.#isLimited ? this.#quotas.admit(key, category, limits, Date.now()) : null;
    this.#upkeepSoon();
    if (refusal) {
      this.#quotas.note(key, 'refused');
      throw refusal;
    }
    const stored = await new Promise<boolean>((resolve, reject) => {
      const bytes = arrival.body.reduce((sum, { length }) => sum + length, 0);
      this.#waiting.push({ key, category, arrival, bytes, resolve, reject });
      if (this.#isStoring) return;
      this.#isStoring = true;
      this.#storing = this.#store();
    });
    if (stored) return;
    forgetKeys(this.#ctx.services);
    throw unknownKey();
  }

  /** Counts a request of a known key that was no envelope, or too large. */
  noteInvalid(key: IngestKey): void {
    this.#quotas.note(key, 'invalid');
    this.#upkeepSoon();
  }

  /** Counts items that were accepted and dropped. */
  noteDropped(key: IngestKey, count: number): void {
    this.#quotas.note(key, 'dropped', count);
    this.#upkeepSoon();
  }

  /** Waits for what is being stored. */
  async close(): Promise<void> {
    await this.#storing;
    if (this.#upkeep) clearTimeout(this.#upkeep);
    await this.#flush();
  }

  async #store(): Promise<void> {
    // Requests that arrive in the same turn of the event loop share a commit.
    await new Promise((resolve) => setImmediate(resolve));
    let queuedAt = Number.NEGATIVE_INFINITY;
    let owesDigest = false;
    while (this.#waiting.length > 0) {
      const group = this.#takeGroup();
      const now = performance.now();
      const stored = await this.#storeGroup(group, now - queuedAt >= QUEUE_MS).catch((error: unknown) => {
        this.#ctx.log.error({ err: error, envelopes: group.length }, 'could not store envelopes');
        return null;
      });
      if (stored) owesDigest = !stored.isQueued;
      if (stored?.isQueued) queuedAt = now;
      if (owesDigest && this.#waiting.length === 0) {
        await queueDigest(this.#ctx);
        owesDigest = false;
      }
      this.#answer(group, stored);
    }
    this.#isStoring = false;
  }

  /** @param stored null if the group could not be stored */
  #answer(group: readonly Waiting[], stored: StoredGroup | null): void {
    if (!stored) {
      const refusal = new Refusal(503, 'the envelope could not be stored; send it again');
      for (const { reject } of group) reject(refusal);
      return;
    }
    const { refused, before } = stored;
    if (before.length > 0) {
      const own = group.map(({ key, category }) => ({ ...key, category }));
      this.#quotas.learn(before, own, Date.now());
    }
    for (const [index, { resolve }] of group.entries()) resolve(!refused.has(index));
  }

  async #storeGroup(group: readonly Waiting[], queues: boolean): Promise<StoredGroup> {
    const rows = group.map(({ arrival, category }) => ({ ...arrival, category }));
    const options = { asksCounts: this.#isLimited, queues };
    for (let attempt = 1; ; attempt++) {
      try {
        return await storeGroup(this.#ctx, rows, options);
      } catch (error) {
        // A project may have been deleted at this moment. The next statement sees that its keys are gone.
        if (attempt >= MAX_ATTEMPTS || (brokenConstraint(error) === null && !isConflict(error))) throw error;
      }
    }
  }

  #takeGroup(): Waiting[] {
    let count = 0;
    for (let bytes = 0; count < this.#waiting.length && count < MAX_ROWS; count++) {
      bytes += this.#waiting[count]?.bytes ?? 0;
      if (count > 0 && bytes > MAX_BYTES) break;
    }
    return this.#waiting.splice(0, count);
  }

  /** Once a second, so that a refusal costs no statement. */
  #upkeepSoon(): void {
    this.#upkeep ??= setTimeout(() => {
      this.#upkeep = null;
      void this.#flush();
    }, UPKEEP_MS).unref();
  }

  async #flush(): Promise<void> {
    try {
      const noted = this.#quotas.takeNoted();
      if (noted.length > 0) await countRefused(this.#ctx, noted);
      this.#backlog = await readBacklog(this.#ctx);
    } catch (error) {
      this.#ctx.log.warn({ err: error }, 'could not count refused envelopes');
    }
  }
}

const tooBusy = (): Refusal =>
  new Refusal(429, 'too much is waiting to be digested', {
    seconds: BACKLOG_SECONDS,
    header: `${BACKLOG_SECONDS}::organization:backlog`,
  });
