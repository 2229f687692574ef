import { type RawBuilder, sql } from 'kysely';
import { Slots } from '../concurrency/slots.ts';
import { type Context, type Services, systemActor, type Tx } from '../context.ts';
import type { CreateContext } from '../create-context.ts';
import { isTransient } from '../db/failures.ts';
import type { Database } from '../db/pool.ts';
import type { EventRow } from '../events.ts';
import { Loop } from './loop.ts';
import { eventsSetAside, followedEvents, followerFailures, followerLag } from './metrics.ts';
import { countBetween } from './ranges.ts';
import { COLUMNS_WITH_PAYLOAD_TEXT, COLUMNS_WITHOUT_PAYLOAD, EVENT_COLUMNS } from './read.ts';
import { type EventSummary, RecentEvents } from './recent-events.ts';
import type { Sequencer } from './sequencer.ts';

/** A durable reader of the log. It handles every event exactly once and in order. One process at a time runs it. */
export interface Follower {
  /** The permanent name of its cursor. */
  readonly name: string;
  /**
   * False if it needs no payloads. They are the larger part of the log, and are then not read but null. `text` leaves them
   * as JSON text: a follower that opens them one by one leaves less garbage than a batch of objects.
   */
  readonly payloads?: boolean | 'text';
  /**
   * Waits this long after a new event, so that the events of a burst share one transaction. For bookkeeping that nobody
   * waits for.
   */
  readonly delayMs?: number;
  /** Returns true for the events to handle. Without it the follower gets every event. */
  wants?(event: EventSummary): boolean;
  /** Handles the events. The cursor advances in the same transaction. Effects outside the database belong in jobs. */
  handle(tx: Tx, events: readonly EventRow[]): Promise<void>;
}

/**
 * The `delayMs` of followers whose work may begin after the hooks of the same event. Side by side, each transaction takes
 * longer, and receivers wait for all of them.
 */
export const AFTER_HOOKS_MS = 20;

/** The `delayMs` of bookkeeping. Pushes over the API that follow each other then share its transactions. */
export const BOOKKEEPING_MS = 100;

export const defineFollower = (follower: Follower): Follower => follower;

/**
 * The row of `events` is one that the follower may not have handled yet. Its saved cursor may be behind by events that
 * it does not want.
 */
export const isUnhandled = ({ name }: Pick<Follower, 'name'>): RawBuilder<boolean> => sql`(events.position is null
  or events.position > coalesce((select position from event_cursors where name = ${name}), -1))`;

export interface RunningFollowers {
  /** Handles all events committed so far, and those that followers emit meanwhile. For tests. */
  drain(): Promise<void>;
  stop(): Promise<void>;
}

export interface FollowersOptions {
  readonly services: Services;
  readonly sequencer: Sequencer;
  readonly createContext: CreateContext;
  readonly followers: readonly Follower[];
  /** The pause after the first failure of an event. It doubles with each further failure. */
  readonly firstRetryMs?: number;
}

/** Runs each follower from its saved cursor. A new follower starts with the oldest event kept. */
export const startFollowers = async (options: FollowersOptions): Promise<RunningFollowers> => {
  const { services, sequencer, followers } = options;
  const names = followers.map((follower) => follower.name);
  await sql`
    insert into event_cursors (name, position)
    select name, pruned_position from unnest(${names}::text[]) as name, event_log
    on conflict do nothing`.execute(services.db);
  const { rows } = await sql<{ name: string; position: number }>`
    select name, position from event_cursors where name = any(${names}::text[])`.execute(services.db);
  const cursors = new Map(rows.map(({ name, position }) => [name, position]));
  const abort = new AbortController();
  const recent = new RecentEvents(services.pool, sequencer);
  const slots = new Slots(CONCURRENCY);
  const readers = followers.map(
    (follower) => new Reader(options, follower, { recent, slots }, cursors.get(follower.name) ?? -1, abort.signal),
  );
  const save = () =>
    saveCursors(services.db, readers).catch((error: unknown) =>
      services.log.warn({ err: error }, 'could not save the cursors of idle followers'),
    );
  const timer = setInterval(save, SAVE_MS);
  timer.unref();
  return {
    drain: async () => {
      for (let head = -1; head !== sequencer.position; ) {
        head = await sequencer.sequence();
        for (const reader of readers) await reader.drain();
        await sequencer.sequence();
      }
      await save();
    },
    stop: async () => {
      abort.abort();
      clearInterval(timer);
      await Promise.all(readers.map((reader) => reader.stop()));
      await save();
    },
  };
};

/**
 * Saves the cursors of followers that only skipped unwanted events. All together and rarely, because after a crash the
 * events are simply skipped again. Leaves out locked cursors: the follower that holds the lock saves them. Then each
 * follower compares its cursor with the database, which may have lost a commit. If this fails, the cursors are still to be
 * saved.
 */
const saveCursors = async (db: Database, readers: readonly Reader[]): Promise<void> => {
  const moved = readers.flatMap((reader) => reader.unsaved() ?? []);
  const notes = readers.map((reader) => reader.saving());
  const { rows } = await sql<{ name: string; position: number }>`
    with idle as (
      select c.name, given.position from event_cursors c
      join unnest(${moved.map(({ name }) => name)}::text[], ${moved.map(({ position }) => position)}::bigint[],
        ${moved.map(({ known }) => known)}::bigint[]) as given (name, position, known)
        on given.name = c.name and given.position > c.position and given.known <= c.position
      order by c.name for update of c skip locked
    ), saved as (
      update event_cursors set position = idle.position, updated_at = now() from idle
      where event_cursors.name = idle.name
    )
    select name, position from event_cursors`.execute(db);
  const positions = new Map(rows.map(({ name, position }) => [name, position]));
  for (const note of notes) note(positions);
};

/** The number of followers that handle events at the same time. The pool keeps the other connections for requests. */
const CONCURRENCY = 5;
const BATCH = 500;
/**
 * Payloads become many objects, which should be garbage before they count as long-lived. A small batch of hook events
 * also finds room in the delivery engine, and a large one does not.
 */
const BATCH_WITH_PAYLOADS = 100;
const MAX_ATTEMPTS = 8;
const FIRST_RETRY_MS = 200;
const MAX_DELAY_MS = 30_000;
const SAVE_MS = 10_000;

/** The state that the readers of a process share. */
interface Shared {
  readonly recent: RecentEvents;
  readonly slots: Slots;
}

class Reader {
  readonly #follower: Follower;
  readonly #sequencer: Sequencer;
  readonly #context: Context;
  readonly #loop: Loop;
  readonly #release: () => void;
  readonly #signal: AbortSignal;
  readonly #firstRetryMs: number;
  readonly #batch: number;
  readonly #recent: RecentEvents;
  readonly #slots: Slots;
  /**
   * Every wanted event up to here is handled. While no event is newer, no statement runs. The saved cursor may be
   * behind.
   */
  #cursor: number;
  /** The position of its row when this process last read or wrote it. */
  #known: number;
  /** True if the cursor has skipped unwanted events since it was saved. */
  #unsaved = false;
  /** After a failed batch, events up to this position are handled one by one, to find the one that fails. */
  #singlyUntil = 0;
  /** Consecutive failures of the event after the cursor. */
  #attempts = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Runs while the follower collects a burst. */
  #delay: NodeJS.Timeout | undefined;

  constructor(
    { sequencer, createContext, firstRetryMs = FIRST_RETRY_MS }: FollowersOptions,
    follower: Follower,
    { recent, slots }: Shared,
    cursor: number,
    signal: AbortSignal,
  ) {
    this.#follower = follower;
    this.#batch = follower.payloads === false ? BATCH : BATCH_WITH_PAYLOADS;
    this.#sequencer = sequencer;
    this.#recent = recent;
    this.#slots = slots;
    this.#cursor = cursor;
    this.#known = cursor;
    this.#signal = signal;
    this.#firstRetryMs = firstRetryMs;
    this.#context = createContext({ actor: systemActor, requestId: `follower-${follower.name}`, signal });
    this.#loop = new Loop(
      () => this.#work(),
      (error) => this.#failed(error),
    );
    this.#release = sequencer.onAdvance(() => this.#advanced());
    this.#wake();
  }

  async drain(): Promise<void> {
    this.#wake();
    await this.#loop.settled();
  }

  async stop(): Promise<void> {
    this.#release();
    clearTimeout(this.#timer);
    clearTimeout(this.#delay);
    await this.#loop.stop();
  }

  /** Returns the cursor if it must be saved. */
  unsaved(): { readonly name: string; readonly position: number; readonly known: number } | null {
    return this.#unsaved ? { name: this.#follower.name, position: this.#cursor, known: this.#known } : null;
  }

  /**
   * Returns a function to call once its present cursor is saved. It compares the cursor with positions that were read
   * since.
   */
  saving(): (positions: ReadonlyMap<string, number>) => void {
    const [cursor, known] = [this.#cursor, this.#known];
    return (positions) => {
      if (this.#cursor === cursor) this.#unsaved = false;
      const position = positions.get(this.#follower.name);
      if (position !== undefined && this.#goBack(position, known)) this.#wake();
    };
  }

  /**
   * Takes note of the position in the database. It is only behind the one before if the database crashed before it had
   * written a commit of this follower to the disk. Its effects are lost too, so the events are handled again. Returns
   * whether that is so.
   */
  #goBack(position: number, known = this.#known): boolean {
    if (position >= known) {
      this.#known = Math.max(this.#known, position);
      return false;
    }
    const { name } = this.#follower;
    this.#context.log.warn({ follower: name, position }, 'the database lost a commit; handling its events again');
    this.#known = position;
    this.#cursor = position;
    this.#unsaved = false;
    return true;
  }

  #advanced(): void {
    const { delayMs } = this.#follower;
    if (delayMs === undefined) this.#wake();
    else
      this.#delay ??= setTimeout(() => {
        this.#delay = undefined;
        this.#wake();
      }, delayMs).unref();
  }

  /** Does nothing during the pause after a failure: new events do not shorten it. */
  #wake(): void {
    if (this.#timer === undefined) this.#loop.wake();
  }

  async #work(): Promise<void> {
    while (!this.#signal.aborted && this.#timer === undefined && this.#cursor < this.#sequencer.position) {
      await this.#skip();
      if (this.#cursor >= this.#sequencer.position) return;
      if (!(await this.#slots.run(() => this.#handleNext()))) return;
    }
  }

  async #skip(): Promise<void> {
    const { name, wants } = this.#follower;
    if (!wants) return;
    const position = await this.#recent.skip(this.#cursor, wants);
    if (position === this.#cursor) return;
    this.#cursor = position;
    this.#unsaved = true;
    followerLag.set({ follower: name }, countBetween(position, this.#sequencer.position));
  }

  /** Returns false if there is nothing to handle, or another process is handling it. */
  async #handleNext(): Promise<boolean> {
    const { name, wants = () => true } = this.#follower;
    let wanted: readonly EventRow[] = [];
    let last: EventRow | undefined;
    const singly = this.#cursor < this.#singlyUntil;
    try {
      await this.#context.transaction(async (tx) => {
        const at = { cursor: this.#cursor, known: this.#known };
        const events = await takeNext(tx, this.#follower, at, singly ? 1 : this.#batch);
        last = events.at(-1);
        if (!last) return;
        wanted = events.filter(wants);
        if (wanted.length > 0) await this.#follower.handle(tx, wanted);
      });
    } catch (error) {
      if (wanted.length === 0 || isTransient(error)) throw error;
      await this.#isolate(wanted, error);
      return true;
    }
    this.#attempts = 0;
    const position = last?.position ?? (await this.#readCursor());
    if (last) this.#unsaved = false;
    if (this.#goBack(position)) return true;
    this.#cursor = Math.max(this.#cursor, position);
    followedEvents.inc({ follower: name }, wanted.length);
    followerLag.set({ follower: name }, countBetween(this.#cursor, this.#sequencer.position));
    return last !== undefined;
  }

  async #readCursor(): Promise<number> {
    const { rows } = await sql<{ position: number }>`
      select position from event_cursors where name = ${this.#follower.name}`.execute(this.#context.db);
    return rows[0]?.position ?? -1;
  }

  /**
   * Handles a failure. A failed batch is repeated event by event. A failing event is retried later, and finally set
   * aside.
   */
  async #isolate(events: readonly EventRow[], error: unknown): Promise<void> {
    const [first] = events;
    const last = events.at(-1);
    if (!first || !last) return;
    const name = this.#follower.name;
    followerFailures.inc({ follower: name });
    this.#cursor = first.position - 1;
    if (events.length > 1) {
      this.#singlyUntil = last.position;
      this.#context.log.warn(
        { err: error, follower: name, events: events.length },
        'a batch of events failed; handling them one by one',
      );
      return;
    }
    this.#attempts++;
    const details = { err: error, follower: name, event_id: first.id, kind: first.kind, attempt: this.#attempts };
    if (this.#attempts < MAX_ATTEMPTS) {
      this.#context.log.error(details, 'an event failed; retrying');
      this.#pause(Math.min(MAX_DELAY_MS, this.#firstRetryMs * 2 ** (this.#attempts - 1)));
      return;
    }
    await this.#setAside(first, error);
    this.#attempts = 0;
    this.#cursor = first.position;
    eventsSetAside.inc({ follower: name });
    this.#context.log.error(details, 'an event failed permanently and was set aside');
  }

  async #setAside(event: EventRow, error: unknown): Promise<void> {
    const name = this.#follower.name;
    const reason = (error instanceof Error ? error.message : String(error)).replaceAll('\0', '').slice(0, 4_000);
    await sql`
      with advanced as (
        update event_cursors set position = ${event.position}, updated_at = now()
        where name = ${name} and position < ${event.position} returning name
      )
      insert into event_failures (follower, event_id, position, kind, error)
      select name, ${event.id}, ${event.position}, ${event.kind}, ${reason} from advanced`.execute(this.#context.db);
  }

  /** The database is unavailable, or our own code failed. This does not count as a failure of the event. */
  #failed(error: unknown): void {
    if (this.#signal.aborted) return;
    this.#context.log.warn({ err: error, follower: this.#follower.name }, 'a follower was interrupted; retrying');
    this.#pause(1_000);
  }

  #pause(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#loop.wake();
    }, delayMs);
    this.#timer.unref();
  }
}

/**
 * Returns the next events after the cursor, and moves the cursor behind them in the same statement. Its row stays locked.
 * Returns none if another process holds the lock, or if the row is behind the position that is known of it. The saved
 * cursor may be behind `cursor`. The position is a scalar
 * subquery rather than a join, so that the planner always uses the index on it, whatever size it assumes for the log.
 * The bound that it implies lets the planner leave out former ranges.
 *
 * The commit of the transaction does not wait for the disk. If the database crashes and loses it, the row is where it
 * was, and the events are handled again. Everything that is committed later, such as the start of a job, reaches the
 * disk after it.
 */
const takeNext = async (
  tx: Tx,
  { name, payloads }: Follower,
  { cursor, known }: { readonly cursor: number; readonly known: number },
  limit: number,
): Promise<readonly EventRow[]> => {
  const columns =
    payloads === false ? COLUMNS_WITHOUT_PAYLOAD : payloads === 'text' ? COLUMNS_WITH_PAYLOAD_TEXT : EVENT_COLUMNS;
  const { rows } = await sql<EventRow>`
    with cursor as materialized (
      select position, set_config('synchronous_commit', 'off', true) from event_cursors
      where name = ${name} and position >= ${known} for update skip locked
    ),
    taken as materialized (
      select ${columns} from events where events.position > ${cursor}
        and events.position > (select greatest(position, ${cursor}::bigint) from cursor)
      order by events.position limit ${sql.lit(limit)}
    ), moved as (
      update event_cursors set position = (select max(position) from taken), updated_at = now()
      where name = ${name} and exists (select from taken)
    )
    select * from taken order by position`.execute(tx.db);
  return rows;
};
