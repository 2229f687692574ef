import type { ServerResponse } from 'node:http';
import { tooManyRequests } from '../errors.ts';
import { MIB } from '../values/units.ts';
import { HeldBytes } from './held-bytes.ts';
import { createTurns } from './turns.ts';

/** Answers up to this size are not counted while they wait for their client. */
const SMALL_BYTES = 64 * 1024;
const RETRY_SECONDS = 5;

/**
 * Limits the memory of answers, from the rows that they are made of to the last byte that the client reads. Without it,
 * a few hundred requests for long pages would fill the memory of the process. Each process has one.
 */
export class Answers {
  readonly #turns = createTurns(
    { ofCaller: 6, ofAll: 16, waiting: { ofCaller: 1_000, ofAll: 5_000 } },
    {
      busy: 'The hub is busy with other requests. Try again in a moment.',
      aborted: () => new DOMException('The client has gone', 'AbortError'),
    },
  );
  readonly #unsent = new HeldBytes({ bytesPerAddress: 128 * MIB, bytesInAll: 512 * MIB });

  /** How many answers are being made, how many wait for their turn, and the bytes that clients have yet to read. */
  figures(): { readonly running: number; readonly waiting: number; readonly unsentBytes: number } {
    return { running: this.#turns.taken(), waiting: this.#turns.waiting(), unsentBytes: this.#unsent.total };
  }

  /**
   * Runs a read of a list or a query when it is the caller's turn. `read` returns the serialised answer: only then are
   * its rows no longer needed.
   *
   * @throws DomainError `too_many_requests` or `unavailable` if too many requests wait
   */
  async inTurn<T>(signal: AbortSignal, read: () => Promise<T>): Promise<T> {
    const release = await this.#turns.take(signal);
    try {
      return await read();
    } finally {
      release();
    }
  }

  /**
   * Counts a serialised answer until its response is closed.
   *
   * @throws DomainError `too_many_requests` if clients have too many bytes to read, at this address or in all
   */
  hold(response: ServerResponse, address: string, bytes: number): void {
    // The response of a client that has gone was closed before.
    if (bytes <= SMALL_BYTES || response.destroyed) return;
    const held = this.#unsent.from(address);
    if (!held.add(bytes)) throw tooManyRequests(RETRY_SECONDS);
    response.once('close', () => held.release());
  }
}
