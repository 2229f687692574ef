import { sql } from 'kysely';
import type { Database } from '../db/pool.ts';
import type { EventRow } from '../events.ts';
import type { Sequencer } from './sequencer.ts';

/** What a follower chooses events by. */
export type EventSummary = Pick<EventRow, 'kind' | 'project_id'>;

const BATCH = 1_000;

/**
 * The newest events, in brief: read once per burst for all followers of the process, so that those who want none of them
 * spend no statement. Events never change, and none appears at a position already read.
 */
export class RecentEvents {
  readonly #db: Database;
  readonly #sequencer: Sequencer;
  /** All events at positions above this one, up to the head, are held. */
  #tail: number;
  #head: number;
  #events: (EventSummary & { readonly position: number })[] = [];
  #reading: Promise<void> | undefined;

  constructor(db: Database, sequencer: Sequencer) {
    this.#db = db;
    this.#sequencer = sequencer;
    this.#tail = this.#head = sequencer.position;
  }

  /**
   * How far a reader at `cursor` may go without missing an event that it wants: the position just before the next such
   * event, or the newest position. The cursor itself where the events after it are no longer held.
   */
  async skip(cursor: number, wants: (event: EventSummary) => boolean): Promise<number> {
    while (this.#head < this.#sequencer.position) {
      this.#reading ??= this.#read();
      await this.#reading;
    }
    if (cursor < this.#tail) return cursor;
    const next = this.#events.find((event) => event.position > cursor && wants(event));
    return next ? next.position - 1 : Math.max(cursor, this.#head);
  }

  async #read(): Promise<void> {
    try {
      const until = this.#sequencer.position;
      const { rows } = await sql<EventSummary & { position: number }>`
        select position, kind, project_id from events where position > ${this.#head} and position <= ${until}
        order by position limit ${sql.lit(BATCH)}`.execute(this.#db);
      this.#events = this.#events.concat(rows);
      const dropped = this.#events.splice(0, Math.max(0, this.#events.length - BATCH)).at(-1);
      if (dropped) this.#tail = dropped.position;
      this.#head = rows.length === BATCH ? (rows.at(-1)?.position ?? until) : until;
    } finally {
      this.#reading = undefined;
    }
  }
}
