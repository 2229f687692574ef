import type { RecordedHook } from './record.ts';

/** The shortest time between two routine notifications about a hook. */
const EVERY_MS = 1_000;
/** The most attempt ids in one event. */
const MAX_IDS = 500;

export interface NotifierOptions {
  /** Commits events for the gathered attempts. Logs errors itself; failed notifications are lost. */
  readonly notify: (hooks: readonly RecordedHook[]) => Promise<void>;
  readonly everyMs?: number;
}

interface Known {
  notifiedAt: number;
  /** Attempts gathered since the last notification. */
  hook: RecordedHook | null;
}

/**
 * Decides when subscribers are notified of a hook's attempts: at once for the first ones and for failures, else once a
 * second. Each notification is an event in the log, and a busy hook would flood it (decision 11).
 */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #everyMs: number;
  readonly #known = new Map<number, Known>();
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> = Promise.resolve();

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#everyMs = options.everyMs ?? EVERY_MS;
  }

  /** Returns the hooks to announce in the transaction that records their attempts. Changes no state. */
  due(hooks: readonly RecordedHook[], failed: ReadonlySet<number>): RecordedHook[] {
    const now = performance.now();
    return hooks.flatMap((hook) => {
      const known = this.#known.get(hook.id);
      if (known && !failed.has(hook.id) && now - known.notifiedAt < this.#everyMs) return [];
      return pages(known?.hook ? joined(known.hook, hook) : hook);
    });
  }

  /** Call after the commit. Marks the announced hooks and gathers the rest. */
  settled(hooks: readonly RecordedHook[], notified: readonly RecordedHook[]): void {
    const now = performance.now();
    const ids = new Set(notified.map(({ id }) => id));
    for (const hook of hooks) {
      const known = this.#known.get(hook.id);
      if (ids.has(hook.id)) this.#known.set(hook.id, { notifiedAt: now, hook: null });
      else if (known) known.hook = known.hook ? joined(known.hook, hook) : hook;
    }
    if (this.#known.size > 0) this.#timer ??= setTimeout(() => this.#flush(), this.#everyMs);
  }

  /** Sends everything that was gathered. */
  async stop(): Promise<void> {
    this.#flush(true);
    clearTimeout(this.#timer);
    await this.#sending;
  }

  #flush(all = false): void {
    this.#timer = undefined;
    const now = performance.now();
    const gathered: RecordedHook[] = [];
    for (const [id, known] of this.#known) {
      if (!all && now - known.notifiedAt < this.#everyMs) continue;
      if (known.hook) {
        gathered.push(...pages(known.hook));
        known.notifiedAt = now;
        known.hook = null;
      } else this.#known.delete(id);
    }
    if (gathered.length > 0) this.#sending = this.#sending.then(() => this.#options.notify(gathered));
    if (this.#known.size > 0 && !all) this.#timer = setTimeout(() => this.#flush(), this.#everyMs / 2);
  }
}

const joined = (before: RecordedHook, now: RecordedHook): RecordedHook => ({
  ...now,
  attempt_ids: [...before.attempt_ids, ...now.attempt_ids],
});

const pages = (hook: RecordedHook): RecordedHook[] => {
  if (hook.attempt_ids.length <= MAX_IDS) return [hook];
  const found: RecordedHook[] = [];
  for (let at = 0; at < hook.attempt_ids.length; at += MAX_IDS)
    found.push({ ...hook, attempt_ids: hook.attempt_ids.slice(at, at + MAX_IDS) });
  return found;
};
