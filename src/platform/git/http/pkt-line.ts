import { GitError } from '../git-error.ts';

/**
 * A packet is its length in four hex digits, which counts the digits too, followed by its payload. `0000` is a flush.
 */
export const FLUSH = Buffer.from('0000');
const MAX_PAYLOAD = 65_516;

export const packet = (payload: string | Buffer): Buffer => {
  const bytes = Buffer.from(payload);
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), bytes]);
};

/** Wraps bytes for a side band (1 the response, 2 text for the terminal). */
export const sideBand = (band: 1 | 2, bytes: Buffer): Buffer => {
  const packets: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += MAX_PAYLOAD - 1) {
    packets.push(packet(Buffer.concat([Buffer.from([band]), bytes.subarray(at, at + MAX_PAYLOAD - 1)])));
  }
  return Buffer.concat(packets);
};

/** Splits incoming bytes into packets. */
export class PacketSplitter {
  #held: Buffer = Buffer.alloc(0);

  push(chunk: Buffer): void {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
  }

  /**
   * Returns the next payload, `flush`, or null if more bytes are needed. @throws GitError `invalid` for an invalid
   * packet
   */
  next(): Buffer | 'flush' | null {
    if (this.#held.length < 4) return null;
    const digits = this.#held.toString('latin1', 0, 4);
    const length = /^[0-9a-fA-F]{4}$/.test(digits) ? Number.parseInt(digits, 16) : -1;
    if (length === 0) {
      this.#held = this.#held.subarray(4);
      return 'flush';
    }
    if (length < 4 || length > MAX_PAYLOAD + 4) throw new GitError('invalid', 'The request is not in the git protocol');
    if (this.#held.length < length) return null;
    const payload = this.#held.subarray(4, length);
    this.#held = this.#held.subarray(length);
    return payload;
  }

  /** Returns the bytes that do not form a complete packet yet. */
  rest(): Buffer {
    return this.#held;
  }
}
