import type { Pool } from 'pg';
import type { Logger } from '../log.ts';
import { Loop } from './loop.ts';

/** The part of the listener that the event log needs. */
export interface Notifications {
  on(channel: string, handler: (payload: string) => void): () => void;
  /** Notifications may have been lost: whoever relies on them looks for itself. */
  onReconnect(handler: () => void): () => void;
}

const POLL_MS = 1_000;

/**
 * Knows the newest position of the log. On every commit of events, and each second as the floor, it has the database
 * give positions to what has none; whoever follows the log is told when the newest position moves.
 */
export class Sequencer {
  readonly #pool: Pool;
  readonly #loop: Loop;
  readonly #handlers = new Set<() => void>();
  readonly #release: (() => void)[] = [];
  #position = 0;
  #poll: NodeJS.Timeout | undefined;

  constructor(pool: Pool, log: Logger) {
    this.#pool = pool;
    this.#loop = new Loop(
      async () => {
        await this.sequence();
      },
      (error) => log.warn({ err: error }, 'events could not be sequenced; trying again'),
    );
  }

  /** The newest position known to this process. */
  get position(): number {
    return this.#position;
  }

  async start(notifications: Notifications): Promise<void> {
    this.#release.push(
      notifications.on('event_committed', () => this.#loop.wake()),
      notifications.on('events', (payload) => this.#advance(Number(payload))),
      notifications.onReconnect(() => this.#loop.wake()),
    );
    await this.sequence();
    this.#poll = setInterval(() => {
      this.#loop.wake();
      for (const handler of this.#handlers) handler();
    }, POLL_MS);
    this.#poll.unref();
  }

  /** Calls `handler` when the position has moved, and each second as the floor. Returns what ends it. */
  onAdvance(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  /** Gives positions to all that is committed, and returns the newest. */
  async sequence(): Promise<number> {
    const { rows } = await this.#pool.query<{ head: number }>({
      name: 'sequence_events',
      text: 'select sequence_events() as head',
    });
    this.#advance(rows[0]?.head ?? 0);
    return this.#position;
  }

  async stop(): Promise<void> {
    clearInterval(this.#poll);
    for (const release of this.#release) release();
    this.#handlers.clear();
    await this.#loop.stop();
  }

  #advance(position: number): void {
    if (!(position > this.#position)) return;
    this.#position = position;
    for (const handler of this.#handlers) handler();
  }
}
