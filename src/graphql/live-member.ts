import type { Actor } from '#platform/context.ts';
import type { Frame } from './frame.ts';
import type { Seat } from './live-bounds.ts';

/** The destination of a subscriber's frames. */
export interface LiveSink {
  /** Counts the bytes that the sink holds. */
  readonly seat: Seat;
  send(frame: Frame): void;
  /** Resolves when the sink can take more without queueing. */
  ready(): Promise<void>;
  /** Ends the stream: no more frames follow. */
  complete(): void;
  /** Disconnects a subscriber because it is too slow or the hub is stopping. It may resume with its cursor. */
  drop(): void;
}

/** The caller behind one or more subscriptions. */
export interface Viewer {
  readonly key: string;
  readonly actor: Actor;
  members: number;
}

/** Characters of frames that are queued for a subscriber during its replay. */
const MAX_WAITING = 2_000_000;

/** One subscription: live at once, or after the replay of what it missed. */
export class Member {
  readonly viewer: Viewer;
  readonly sink: LiveSink;
  /** Live events up to this position are skipped: they predate the subscription, or its replay sends them. */
  readonly from: number;
  readonly #release: () => void;
  /** Live frames that wait for the end of the replay. Null once the member is live. */
  #waiting: Frame[] | null;
  #waitingLength = 0;
  #closed = false;

  constructor({
    viewer,
    sink,
    release,
    from,
    replays,
  }: Pick<Member, 'viewer' | 'sink' | 'from'> & {
    /** Releases the subscription's seat. */
    readonly release: () => void;
    /** Whether a replay comes before live events. */
    readonly replays: boolean;
  }) {
    this.viewer = viewer;
    this.sink = sink;
    this.from = from;
    this.#release = release;
    this.#waiting = replays ? [] : null;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Sends a live frame, or keeps it until the replay has ended. Returns false if too much waits. */
  take(frame: Frame): boolean {
    if (this.#closed) return true;
    if (!this.#waiting) {
      this.sink.send(frame);
      return true;
    }
    const { length } = frame.json;
    if (this.#waitingLength + length > MAX_WAITING || !this.sink.seat.hold(length)) return false;
    this.#waiting.push(frame);
    this.#waitingLength += length;
    return true;
  }

  /** Sends what waited. From now on live frames are sent at once. */
  endReplay(): void {
    const waiting = this.#waiting ?? [];
    this.#endWaiting();
    for (const frame of waiting) if (!this.#closed) this.sink.send(frame);
  }

  /** Releases what the subscription holds. Returns false if it was closed before. */
  close(): boolean {
    if (this.#closed) return false;
    this.#closed = true;
    this.#release();
    this.#endWaiting();
    return true;
  }

  #endWaiting(): void {
    this.#waiting = null;
    this.sink.seat.release(this.#waitingLength);
    this.#waitingLength = 0;
  }
}
