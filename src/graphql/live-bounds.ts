import { networkOf } from '#platform/caller/network.ts';
import type { Config } from '#platform/config/config.ts';
import { MIB } from '#platform/values/units.ts';

export type LiveLimits = Pick<
  Config,
  | 'streamsPerUser'
  | 'streamsPerAddress'
  | 'subscriptionsPerUser'
  | 'subscriptionsPerAddress'
  | 'streamMemoryPerUser'
  | 'streamMemoryPerAddress'
  | 'streamMemory'
>;

/** Current usage of one user, one address or the whole hub, over WebSockets and event streams. */
interface Account {
  readonly key: string;
  /** The name in refusals. */
  readonly name: string;
  readonly limits: {
    readonly streams: number;
    readonly subscriptions: number;
    readonly bytes: number;
    readonly turns: number;
  };
  streams: number;
  subscriptions: number;
  bytes: number;
  /** Number of subscriptions per document. A shared document counts its memory once. */
  readonly documents: Map<object, number>;
  /** Number of operations that are starting, and callbacks that start the waiting ones. */
  turns: number;
  readonly waiting: (() => void)[];
}

export interface NewSubscription {
  /** The document, shared by all subscriptions that use it. */
  readonly document: object;
  readonly documentBytes: number;
  /** Bytes that only this subscription holds. */
  readonly ownBytes: number;
}

/** Operations that may start at once. Each authenticates against the database, and other requests need it too. */
const TURNS_PER_USER = 8;
const TURNS_PER_ADDRESS = 16;

/**
 * Limits the streams (WebSockets and event streams) of this process, their subscriptions, and the bytes that they hold:
 * per user, per address, and the bytes in total. Anonymous callers count only against their address.
 */
export class LiveBounds {
  readonly #limits: LiveLimits;
  readonly #accounts = new Map<string, Account>();

  constructor(limits: LiveLimits) {
    this.#limits = limits;
  }

  /** Admits one stream from this address. Returns its seat, or the reason for the refusal. */
  enter(address: string): Seat | string {
    const { streamsPerAddress, subscriptionsPerAddress, streamMemoryPerAddress, streamMemory } = this.#limits;
    const seat = new Seat(this);
    const all = { streams: Infinity, subscriptions: Infinity, bytes: streamMemory * MIB, turns: Infinity };
    const ofAddress = {
      streams: streamsPerAddress,
      subscriptions: subscriptionsPerAddress,
      bytes: streamMemoryPerAddress * MIB,
      turns: TURNS_PER_ADDRESS,
    };
    const refusal =
      seat.join(this.#account('all', 'this hub', all)) ??
      seat.join(this.#account(`address ${networkOf(address)}`, 'your address', ofAddress));
    if (refusal !== null) seat.leave();
    return refusal ?? seat;
  }

  accountOfUser(userId: number): Account {
    const { streamsPerUser, subscriptionsPerUser, streamMemoryPerUser } = this.#limits;
    return this.#account(`user ${userId}`, 'your user', {
      streams: streamsPerUser,
      subscriptions: subscriptionsPerUser,
      bytes: streamMemoryPerUser * MIB,
      turns: TURNS_PER_USER,
    });
  }

  forget(account: Account): void {
    if (account.streams === 0 && account.subscriptions === 0) this.#accounts.delete(account.key);
  }

  #account(key: string, name: string, limits: Account['limits']): Account {
    let account = this.#accounts.get(key);
    if (!account) {
      account = {
        key,
        name,
        limits,
        streams: 0,
        subscriptions: 0,
        bytes: 0,
        documents: new Map(),
        turns: 0,
        waiting: [],
      };
      this.#accounts.set(key, account);
    }
    return account;
  }
}

/** One admitted stream. Everything it holds counts for its address, its user and the whole process. */
export class Seat {
  readonly #bounds: LiveBounds;
  readonly #accounts: Account[] = [];
  #isIdentified = false;
  #hasLeft = false;
  #bytes = 0;

  constructor(bounds: LiveBounds) {
    this.#bounds = bounds;
  }

  /**
   * Counts the stream for its user too, before its first subscription. Returns the reason when the user is over a
   * limit, else null.
   */
  identify(userId: number | null): string | null {
    if (this.#isIdentified || userId === null) return null;
    this.#isIdentified = true;
    return this.join(this.#bounds.accountOfUser(userId));
  }

  /** Adds the stream, with the bytes it holds by now, to an account. Returns the reason for a refusal, else null. */
  join(account: Account): string | null {
    const refused =
      account.streams >= account.limits.streams
        ? `Too many streams are open from ${account.name}: the limit is ${account.limits.streams}`
        : tooManyBytes(account, this.#bytes);
    if (refused !== null || this.#hasLeft) {
      this.#bounds.forget(account);
      return refused;
    }
    this.#accounts.push(account);
    account.streams++;
    account.bytes += this.#bytes;
    return null;
  }

  /** Admits a subscription. Returns a function that releases it, or the reason for the refusal. */
  subscribe({ document, documentBytes, ownBytes }: NewSubscription): (() => void) | string {
    const accounts = [...this.#accounts];
    for (const account of accounts) {
      const bytes = ownBytes + (account.documents.has(document) ? 0 : documentBytes);
      const refused =
        account.subscriptions >= account.limits.subscriptions
          ? `Too many subscriptions are open from ${account.name}: the limit is ${account.limits.subscriptions}`
          : tooManyBytes(account, bytes);
      if (refused !== null) return refused;
    }
    for (const account of accounts) {
      const users = account.documents.get(document) ?? 0;
      account.documents.set(document, users + 1);
      account.bytes += ownBytes + (users === 0 ? documentBytes : 0);
      account.subscriptions++;
    }
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      for (const account of accounts) {
        const users = (account.documents.get(document) ?? 1) - 1;
        if (users === 0) account.documents.delete(document);
        else account.documents.set(document, users);
        account.bytes -= ownBytes + (users === 0 ? documentBytes : 0);
        account.subscriptions--;
        this.#bounds.forget(account);
      }
    };
  }

  /**
   * Counts bytes that are queued for this stream. Returns false, and counts nothing, when a limit would be exceeded.
   */
  hold(bytes: number): boolean {
    if (this.refusesBytes(bytes) !== null) return false;
    this.#add(bytes);
    return true;
  }

  /** Returns the reason why this many more bytes cannot be held, or null. */
  refusesBytes(bytes: number): string | null {
    for (const account of this.#accounts) {
      const refused = tooManyBytes(account, bytes);
      if (refused !== null) return refused;
    }
    return null;
  }

  /** Runs `work` when the stream's user has a free slot. Uses the slots of the address until the user is known. */
  async turn<T>(work: () => Promise<T>): Promise<T> {
    const account = this.#accounts.at(-1);
    if (!account) return work();
    if (account.turns < account.limits.turns) account.turns++;
    else await new Promise<void>((resolve) => account.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = account.waiting.shift();
      // The next waiter takes over the slot.
      if (next) next();
      else account.turns--;
    }
  }

  release(bytes: number): void {
    this.#add(-bytes);
  }

  /** Releases the seat of a closed stream. Its subscriptions are released separately. */
  leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    for (const account of this.#accounts.splice(0)) {
      account.streams--;
      account.bytes -= this.#bytes;
      this.#bounds.forget(account);
    }
  }

  #add(bytes: number): void {
    for (const account of this.#accounts) account.bytes += bytes;
    this.#bytes += bytes;
  }
}

const tooManyBytes = ({ bytes, limits, name }: Account, more: number): string | null =>
  bytes + more > limits.bytes
    ? `The streams of ${name} hold too much: the limit is ${limits.bytes / MIB} MiB of subscriptions and unread results`
    : null;
