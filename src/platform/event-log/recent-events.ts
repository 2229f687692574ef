import type { Pool } from 'pg';
import { queryTogether, type Statement } from '../db/pool.ts';
import type { EventRow } from '../events.ts';
import type { Sequencer } from './sequencer.ts';

/** The part of an event by which a follower decides whether it wants the event. */
export type EventSummary = Pick<EventRow, 'kind' | 'project_id'>;

interface Read extends EventSummary {
  readonly position: number;
}

const BATCH = 1_000;
const MAX_KEPT = 20_000;

/**
 * Summaries of the newest events, read once per burst for all followers of the process. Followers that want none of
 * them then run no statement. Events never change, and no new event appears at a position that was already read. They
 * are read together with the statement that assigns their positions, which saves a round trip.
 */
export class RecentEvents {
  readonly #pool: Pool;
  readonly #sequencer: Sequencer;
  /** All events above this position, up to the head, are held in memory. */
  #tail: number;
  #head: number;
  #events: Read[] = [];
  #reading: Promise<void> | undefined;

  constructor(pool: Pool, sequencer: Sequencer) {
    this.#pool = pool;
    this.#sequencer = sequencer;
    this.#tail = this.#head = sequencer.position;
    sequencer.sequenceThrough(async (sequencing) => {
      const after = this.#head;
      const [[first], rows] = await queryTogether<{ head: number }, Read>(pool, sequencing, eventsAfter(after));
      const head = first?.head ?? 0;
      this.#add(rows, after, head);
      return head;
    });
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
      const after = this.#head;
      const until = this.#sequencer.position;
      const { rows } = await this.#pool.query<Read>(eventsAfter(after));
      this.#add(rows, after, until);
    } finally {
      this.#reading = undefined;
    }
  }

  /** Adds the events after `after`, of which all up to `until` were committed before they were read. */
  #add(rows: readonly Read[], after: number, until: number): void {
    // They were read twice at the same time.
    if (after !== this.#head) return;
    this.#events = this.#events.concat(rows);
    const dropped = this.#events.splice(0, Math.max(0, this.#events.length - MAX_KEPT)).at(-1);
    if (dropped) this.#tail = dropped.position;
    const last = rows.at(-1)?.position ?? after;
    this.#head = rows.length === BATCH ? last : Math.max(last, until);
  }
}

const eventsAfter = (position: number): Statement => ({
  name: 'recent_events',
  text: `select position, kind, project_id from events where position > $1 order by position limit ${BATCH}`,
  values: [position],
});
