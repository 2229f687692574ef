import { networkOf } from './network.ts';

export interface HeldBytesLimits {
  readonly bytesPerAddress: number;
  readonly bytesInAll: number;
}

/** The bytes of one request or WebSocket. */
export interface Hold {
  /** Counts further bytes. Returns false, and counts nothing, when a limit would be exceeded. */
  add(bytes: number): boolean;
  /** Releases this many bytes, or all of them. */
  release(bytes?: number): void;
}

/**
 * Limits the bytes that are kept in memory for clients, per address and in total: bodies and messages that are still
 * arriving, and answers that are not sent yet. Without it, clients could make the hub keep many of them at no cost.
 */
export class HeldBytes {
  readonly #byNetwork = new Map<string, number>();
  readonly #limits: HeldBytesLimits;
  #total = 0;

  constructor(limits: HeldBytesLimits) {
    this.#limits = limits;
  }

  /** The bytes that are held for all clients. */
  get total(): number {
    return this.#total;
  }

  from(address: string): Hold {
    const network = networkOf(address);
    let held = 0;
    const change = (bytes: number): void => {
      held += bytes;
      this.#total += bytes;
      const ofNetwork = (this.#byNetwork.get(network) ?? 0) + bytes;
      if (ofNetwork === 0) this.#byNetwork.delete(network);
      else this.#byNetwork.set(network, ofNetwork);
    };
    return {
      add: (bytes) => {
        const ofNetwork = this.#byNetwork.get(network) ?? 0;
        const { bytesPerAddress, bytesInAll } = this.#limits;
        if (ofNetwork + bytes > bytesPerAddress || this.#total + bytes > bytesInAll) return false;
        change(bytes);
        return true;
      },
      release: (bytes = held) => {
        if (held > 0) change(-Math.min(bytes, held));
      },
    };
  }
}
