import { setTimeout as sleep } from 'node:timers/promises';
import type { Context } from '#platform/context.ts';
import { applyFindings, type Findings } from './health.ts';
import { News } from './news.ts';
import { type Attempt, recordAttempts, tellOfAttempts } from './record.ts';

export interface Recorded extends Attempt {
  readonly probe: boolean;
  /** Failures of the hook that were known when the delivery was taken: a success then has something to say. */
  readonly knownFailures: number;
}

export interface RecorderOptions {
  /** Whose transactions the engine writes with. */
  readonly ctx: Context;
  readonly processId: string;
  /** Called when a group is written, with the hooks that may not be sent to now. */
  readonly onRecorded: (attempts: readonly Recorded[], blocked: ReadonlySet<number>) => void;
}

/** How long attempts are gathered before they are written together, and how many at most. */
const GROUP_MS = 3;
const MAX_GROUP = 256;
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

/** Writes what came of attempts in groups: a statement for many costs little more than a statement for one. */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #news: News;
  #waiting: Recorded[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | null = null;
  #stopped = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#news = new News({
      tell: async (hooks) => {
        await options.ctx
          .transaction(async (tx) => tellOfAttempts(tx, hooks))
          .catch((error: unknown) => options.ctx.log.warn({ err: error }, 'attempts could not be told of'));
      },
    });
  }

  add(attempt: Recorded): void {
    this.#waiting.push(attempt);
    if (this.#writing) return;
    if (this.#waiting.length >= MAX_GROUP) this.#write();
    else this.#timer ??= setTimeout(() => this.#write(), GROUP_MS);
  }

  /** Writes all there is. What cannot be written any more is freed by others when this process has signed off. */
  async stop(): Promise<void> {
    this.#stopped = true;
    while (this.#waiting.length > 0 || this.#writing) {
      if (!this.#writing) this.#write();
      await this.#writing;
    }
    await this.#news.stop();
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#writing || this.#waiting.length === 0) return;
    const group = this.#waiting.splice(0, MAX_GROUP);
    this.#writing = this.#record(group)
      .catch((error: unknown) => this.#options.ctx.log.error({ err: error }, 'a group of attempts failed'))
      .finally(() => {
        this.#writing = null;
        this.#write();
      });
  }

  async #record(group: readonly Recorded[]): Promise<void> {
    const { ctx, processId, onRecorded } = this.#options;
    const findings = findingsOf(group);
    const failed = new Set(group.filter(({ outcome }) => !outcome.delivered).map(({ webhookId }) => webhookId));
    // The log and what it says of the hooks: all or nothing.
    const written = await this.#insist(
      () =>
        ctx.transaction(async (tx) => {
          const hooks = await recordAttempts(tx.db, processId, group);
          const told = this.#news.due(hooks, failed);
          tellOfAttempts(tx, told);
          return { hooks, told, blocked: findings.length > 0 ? await applyFindings(tx, findings) : new Set<number>() };
        }),
      'attempts could not be recorded',
    );
    if (written) this.#news.settled(written.hooks, written.told);
    onRecorded(group, written?.blocked ?? new Set());
  }

  /** The database may be away for a while: what was sent must still be known when it is back. */
  async #insist<T>(write: () => Promise<T>, complaint: string): Promise<T | null> {
    for (let delayMs = FIRST_RETRY_MS; ; delayMs = Math.min(delayMs * 2, LAST_RETRY_MS)) {
      try {
        return await write();
      } catch (error) {
        this.#options.ctx.log.error({ err: error }, complaint);
        if (this.#stopped) return null;
        await sleep(delayMs);
      }
    }
  }
}

/** What a group says about each of its hooks, in the order in which attempts ended. Nothing, where all is well as before. */
const findingsOf = (group: readonly Recorded[]): Findings[] => {
  const byHook = new Map<number, { -readonly [K in keyof Findings]: Findings[K] }>();
  for (const { webhookId, outcome, probe, knownFailures } of group) {
    if (outcome.delivered && knownFailures === 0 && !probe && !byHook.has(webhookId)) continue;
    const found = byHook.get(webhookId) ?? {
      webhook_id: webhookId,
      succeeded: false,
      failures: 0,
      probe: false,
      gone: false,
    };
    byHook.set(webhookId, found);
    if (outcome.delivered) {
      found.succeeded = true;
      found.failures = 0;
    } else {
      found.failures += 1;
      found.gone ||= outcome.gone;
    }
    found.probe ||= probe;
  }
  return [...byHook.values()];
};
