import { sql } from 'kysely';
import type { Database } from '../db/pool.ts';
import { DomainError } from '../errors.ts';
import type { EventRow } from '../events.ts';
import type { Logger } from '../log.ts';
import { Loop } from './loop.ts';
import { type LiveFilter, readEvents } from './read.ts';
import type { Sequencer } from './sequencer.ts';
import { Subscriptions } from './subscriptions.ts';

/** The source of subscriptions. One per process: the log is read once, no matter how many clients subscribe. */
export interface EventFeed {
  /** The newest position that this feed has passed on. A cursor from another process may be slightly newer. */
  head(): number;
  /** Passes on matching events after the current `head()`, in order. Returns a function that unsubscribes. */
  subscribe(filter: LiveFilter, onEvent: (event: EventRow) => void): () => void;
  /**
   * Returns the matching events after `after`, up to and including `until`, oldest first, in batches.
   *
   * @throws DomainError `gone` if `after` is older than the oldest event kept
   */
  history(filter: LiveFilter, after: number, until: number): AsyncIterable<EventRow[]>;
}

const BATCH = 500;
/** The number of events that one statement may scan if no index serves the filter. */
const WINDOW = 20_000;

export class Feed implements EventFeed {
  readonly #db: Database;
  readonly #log: Logger;
  readonly #sequencer: Sequencer;
  readonly #subscriptions = new Subscriptions();
  readonly #loop: Loop;
  readonly #release: () => void;
  #position: number;

  constructor(db: Database, sequencer: Sequencer, log: Logger) {
    this.#db = db;
    this.#log = log;
    this.#sequencer = sequencer;
    this.#position = sequencer.position;
    this.#loop = new Loop(
      () => this.#read(),
      (error) => log.warn({ err: error }, 'could not read the event feed; retrying'),
    );
    this.#release = sequencer.onAdvance(() => this.#loop.wake());
  }

  head(): number {
    return this.#position;
  }

  subscribe(filter: LiveFilter, onEvent: (event: EventRow) => void): () => void {
    return this.#subscriptions.add({ filter, after: this.#position, onEvent });
  }

  async *history(filter: LiveFilter, after: number, until: number): AsyncGenerator<EventRow[]> {
    const indexed = filter.project_id !== undefined || filter.subject !== undefined;
    let position = after;
    let end = indexed ? until : after;
    // Checked for an empty range too, so that an expired cursor fails at once.
    await this.#assertKept(position);
    while (position < until) {
      if (position >= end) end = await this.#windowEnd(position, until);
      const events = await readEvents(this.#db, { after: position, until: end, limit: BATCH }, filter);
      // Checked after the read, to detect events pruned meanwhile.
      await this.#assertKept(position);
      if (events.length > 0) yield events;
      position = events.length < BATCH ? end : (events.at(-1)?.position ?? end);
    }
  }

  async stop(): Promise<void> {
    this.#release();
    await this.#loop.stop();
  }

  async #read(): Promise<void> {
    while (this.#position < this.#sequencer.position) {
      const until = this.#sequencer.position;
      if (this.#subscriptions.size === 0) {
        this.#position = until;
        return;
      }
      const kinds = this.#subscriptions.kinds();
      const events = await readEvents(this.#db, { after: this.#position, until, limit: BATCH }, { kinds });
      // Somebody who subscribed meanwhile wants kinds that were not read, so read again.
      if (!covers(kinds, this.#subscriptions.kinds())) continue;
      for (const event of events) this.#pass(event);
      if (events.length < BATCH) this.#position = until;
    }
  }

  #pass(event: EventRow): void {
    const subscriptions = this.#subscriptions.matching(event);
    this.#position = event.position;
    for (const { onEvent } of subscriptions) {
      try {
        onEvent(event);
      } catch (error) {
        this.#log.error({ err: error, event_id: event.id }, 'a subscriber failed to handle an event');
      }
    }
  }

  /** Counts events, because positions have gaps. */
  async #windowEnd(after: number, until: number): Promise<number> {
    const { rows } = await sql<{ position: number }>`
      select position from events where position > ${after} and position <= ${until}
      order by position offset ${sql.lit(WINDOW - 1)} limit 1`.execute(this.#db);
    return rows[0]?.position ?? until;
  }

  async #assertKept(position: number): Promise<void> {
    const { rows } = await sql<{ pruned_position: number }>`select pruned_position from event_log`.execute(this.#db);
    if (position < (rows[0]?.pruned_position ?? 0))
      throw new DomainError(
        'gone',
        'The cursor is older than the oldest event kept; read the current state and subscribe again',
      );
  }
}

const covers = (read: ReadonlySet<string> | null, wanted: ReadonlySet<string> | null): boolean =>
  read === null || (wanted !== null && [...wanted].every((kind) => read.has(kind)));
