import { sql } from 'kysely';
import type { Database } from '../db/pool.ts';
import type { EventRow } from '../events.ts';
import type { Sequencer } from './sequencer.ts';

/** The part of an event by which a follower decides whether it wants the event. */
export type EventSummary = Pick<EventRow, 'kind' | 'project_id'>;

const BATCH = 1_000;
const MAX_KEPT = 20_000;

/**
 * Summaries of the newest events, read once per burst for all followers of the process. Followers that want none of
 * them then run no statement. Events never change, and no new event appears at a position that was already read.
 */
export class RecentEvents {
  readonly #db: Database;
  readonly #sequencer: Sequencer;
  /** All events above this position, up to the head, are held in memory. */
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
   * Returns how far a reader at `cursor` may advance without missing a wanted event: the position just before the next
   * wanted event, or else the newest position. Returns `cursor` itself if later events are no longer in memory.
   */
  async skip(cursor: number, wants: (event: EventSummary) => boolean): Promise<number> {
    while (this.#head < this.#sequencer.position) {
      this.#reading ??= this.#read();
      await this.#reading;
    }
    if (cursor < this.#tail) return cursor;
    for (let n = this.#firstAfter(cursor); n < this.#events.length; n++) {
      const event = this.#events[n];
      if (event && wants(event)) return event.position - 1;
    }
    return Math.max(cursor, this.#head);
  }

  /** Returns the index of the first event after the position. */
  #firstAfter(position: number): number {
    let [low, high] = [0, this.#events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#events[middle]?.position ?? 0) > position) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  async #read(): Promise<void> {
    try {
      const until = this.#sequencer.position;
      const { rows } = await sql<EventSummary & { position: number }>`
        select position, kind, project_id from events where position > ${this.#head} and position <= ${until}
        order by position limit ${sql.lit(BATCH)}`.execute(this.#db);
      this.#events = this.#events.concat(rows);
      const dropped = this.#events.splice(0, Math.max(0, this.#events.length - MAX_KEPT)).at(-1);
      if (dropped) this.#tail = dropped.position;
      this.#head = rows.length === BATCH ? (rows.at(-1)?.position ?? until) : until;
    } finally {
      this.#reading = undefined;
    }
  }
}
