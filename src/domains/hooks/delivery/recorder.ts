import { setTimeout as sleep } from 'node:timers/promises';
import type { Context, Tx } from '#platform/context.ts';
import { applyFindings, type Findings } from './health.ts';
import { Notifier } from './notifier.ts';
import { type Attempt, emitAttempts, type RecordedHook, recordAttempts } from './record.ts';

export interface Recorded extends Attempt {
  readonly probe: boolean;
  /** The failure count of the hook at claim time. If it was above 0, a success resets it. */
  readonly knownFailures: number;
}

export interface RecorderOptions {
  /** The context whose transactions the recorder writes in. */
  readonly ctx: Context;
  readonly processId: string;
  /** Called after a group was written, with the ids of the hooks that are disabled now. */
  readonly onRecorded: (attempts: readonly Recorded[], blocked: ReadonlySet<number>) => void;
}

/** How long and how many attempts are gathered into one write. */
const GROUP_MS = 3;
const MAX_GROUP = 256;
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

/** Records outcomes in groups, because one statement for many costs little more than one for one. */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #notifier: Notifier;
  #waiting: Recorded[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | null = null;
  #stopped = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#notifier = new Notifier({
      notify: async (hooks) => {
        await options.ctx
          .transaction(async (tx) => emitAttempts(tx, hooks))
          .catch((error: unknown) => options.ctx.log.warn({ err: error }, 'could not notify subscribers of attempts'));
      },
    });
  }

  add(attempt: Recorded): void {
    this.#waiting.push(attempt);
    if (this.#writing) return;
    if (this.#waiting.length >= MAX_GROUP) this.#write();
    else this.#timer ??= setTimeout(() => this.#write(), GROUP_MS);
  }

  /** Emits the events about successful attempts that the transaction has recorded itself. */
  announce(tx: Tx, hooks: readonly RecordedHook[]): void {
    const told = this.#notifier.due(hooks, new Set());
    emitAttempts(tx, told);
    tx.afterCommit(() => this.#notifier.settled(hooks, told));
  }

  /**
   * Writes everything that waits. Other processes release what could not be written once this process has signed off.
   */
  async stop(): Promise<void> {
    this.#stopped = true;
    while (this.#waiting.length > 0 || this.#writing) {
      if (!this.#writing) this.#write();
      await this.#writing;
    }
    await this.#notifier.stop();
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
    // The log rows and the health of the hooks commit together.
    const written = await this.#insist(
      () =>
        ctx.transaction(async (tx) => {
          const hooks = await recordAttempts(tx.db, processId, group);
          const notified = this.#notifier.due(hooks, failed);
          emitAttempts(tx, notified);
          return {
            hooks,
            notified,
            blocked: findings.length > 0 ? await applyFindings(tx, findings) : new Set<number>(),
          };
        }),
      'attempts could not be recorded',
    );
    if (written) this.#notifier.settled(written.hooks, written.notified);
    onRecorded(group, written?.blocked ?? new Set());
  }

  /** Retries until the database is back, so that the outcomes of sent deliveries are not lost. */
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

/**
 * Returns the findings of a group by hook, in the order in which attempts ended. Leaves out hooks that just stay
 * healthy.
 */
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
