import type { Pool } from 'pg';
import type { Statement } from '../db/pool.ts';
import type { Logger } from '../log.ts';
import { Loop } from './loop.ts';

/** The part of the listener that the event log needs. */
export interface Notifications {
  on(channel: string, handler: (payload: string) => void): () => void;
  /** Called when notifications may have been lost, so that readers check for themselves. */
  onReconnect(handler: () => void): () => void;
}

/** Runs the statement that assigns positions. Returns the newest position. */
export type RunSequencing = (sequencing: Statement) => Promise<number>;

const POLL_MS = 1_000;
const SEQUENCING: Statement = { name: 'sequence_events', text: 'select sequence_events() as head', values: [] };

/**
 * Knows the newest position of the log. Makes the database assign positions to new events, on every notification of a
 * commit and at least once a second. Calls its handlers when the newest position changes.
 */
export class Sequencer {
  #run: RunSequencing;
  readonly #pollMs: number;
  readonly #loop: Loop;
  readonly #handlers = new Set<() => void>();
  readonly #release: (() => void)[] = [];
  #position = 0;
  /** How many of our own statements run, and the newest position that was announced meanwhile. */
  #sequencing = 0;
  #announced = 0;
  #poll: NodeJS.Timeout | undefined;

  constructor(pool: Pool, log: Logger, pollMs = POLL_MS) {
    this.#run = async (sequencing) => (await pool.query<{ head: number }>(sequencing)).rows[0]?.head ?? 0;
    this.#pollMs = pollMs;
    this.#loop = new Loop(
      async () => {
        await this.sequence();
      },
      (error) => log.warn({ err: error }, 'could not sequence events; retrying'),
    );
  }

  /** The newest position known to this process. */
  get position(): number {
    return this.#position;
  }

  async start(notifications: Notifications): Promise<void> {
    this.#release.push(
      notifications.on('event_committed', () => this.#loop.wake()),
      notifications.on('events', (payload) => this.#hear(Number(payload))),
      notifications.onReconnect(() => this.#loop.wake()),
    );
    await this.sequence();
    this.#poll = setInterval(() => {
      this.#loop.wake();
      for (const handler of this.#handlers) handler();
    }, this.#pollMs);
    this.#poll.unref();
  }

  /**
   * Calls `handler` when the position has changed, and at least once a second. Returns a function that unsubscribes.
   */
  onAdvance(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  /** From now on `run` sends the statement, so that it can send another one together with it. */
  sequenceThrough(run: RunSequencing): void {
    this.#run = run;
  }

  /** Assigns positions to all committed events. Returns the newest position. */
  async sequence(): Promise<number> {
    this.#sequencing++;
    try {
      const head = await this.#run(SEQUENCING);
      if (head > this.#announced) this.#announced = head;
    } finally {
      this.#sequencing--;
      this.#advance(this.#announced);
    }
    return this.#position;
  }

  async stop(): Promise<void> {
    clearInterval(this.#poll);
    for (const release of this.#release) release();
    this.#handlers.clear();
    await this.#loop.stop();
  }

  /**
   * Our own statement announces its positions too, just before it returns. Readers would read the new events again if they
   * heard of them before that.
   */
  #hear(position: number): void {
    if (position > this.#announced) this.#announced = position;
    if (this.#sequencing === 0) this.#advance(this.#announced);
  }

  #advance(position: number): void {
    if (!(position > this.#position)) return;
    this.#position = position;
    for (const handler of this.#handlers) handler();
  }
}
