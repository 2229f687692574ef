import { networkOf } from '#platform/network.ts';

const MIB = 1024 * 1024;
const PER_ADDRESS = 8 * MIB;
const IN_ALL = 32 * MIB;

/** What one request or WebSocket has sent of something that is not whole yet. */
export interface Arrival {
  /** Counts bytes that were kept. False where there would be too many: then they are not counted. */
  add(bytes: number): boolean;
  /** Gives back so many, or all. */
  release(bytes?: number): void;
}

/**
 * Counts the bytes of bodies and messages that are still arriving, for each address and in all: whoever sends nearly all
 * of many would otherwise have them held at no cost.
 */
export class Arriving {
  readonly #byNetwork = new Map<string, number>();
  #total = 0;

  from(address: string): Arrival {
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
        if (ofNetwork + bytes > PER_ADDRESS || this.#total + bytes > IN_ALL) return false;
        change(bytes);
        return true;
      },
      release: (bytes = held) => {
        if (held > 0) change(-Math.min(bytes, held));
      },
    };
  }
}
