/** How many values a cache keeps, and for how long. */
export interface CacheOptions<V> {
  /** The label of its metrics. Caches of one name are counted together. */
  readonly name: string;
  /** The maximum of the weights of all values. Without `weightOf`, the maximum number of values. */
  readonly limit: number;
  /** For values of very different sizes, such as texts: the size of a value, in bytes. */
  readonly weightOf?: (value: V) => number;
  /** Values older than this are misses. Without it they never expire. */
  readonly ttlMs?: number;
}

export interface CacheFigures {
  readonly entries: number;
  readonly hits: number;
  readonly misses: number;
}

interface Entry<V> {
  readonly value: V;
  readonly weight: number;
  readonly until: number;
}

/**
 * A bounded map that drops what was not used for longest. It has two generations: values in use move to the young one,
 * and when that holds half of the limit, it becomes the old one and the former old one is dropped. A hit therefore costs
 * one look-up in a map, and no list of uses is kept.
 */
export class Cache<K, V extends {}> {
  readonly name: string;
  readonly #options: CacheOptions<V>;
  #young = new Map<K, Entry<V>>();
  #old = new Map<K, Entry<V>>();
  #youngWeight = 0;
  #oldWeight = 0;
  #hits = 0;
  #misses = 0;

  constructor(options: CacheOptions<V>) {
    this.name = options.name;
    this.#options = options;
  }

  get(key: K): V | undefined {
    let entry = this.#young.get(key);
    if (!entry) {
      entry = this.#old.get(key);
      if (entry) this.#keep(key, entry);
    }
    if (!entry || (entry.until !== Number.POSITIVE_INFINITY && entry.until <= performance.now())) {
      this.#misses++;
      return undefined;
    }
    this.#hits++;
    return entry.value;
  }

  set(key: K, value: V): void {
    const { weightOf, ttlMs } = this.#options;
    this.#keep(key, {
      value,
      weight: weightOf?.(value) ?? 1,
      until: ttlMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + ttlMs,
    });
  }

  delete(key: K): void {
    this.#youngWeight -= this.#young.get(key)?.weight ?? 0;
    this.#young.delete(key);
    this.#oldWeight -= this.#old.get(key)?.weight ?? 0;
    this.#old.delete(key);
  }

  clear(): void {
    this.#young = new Map();
    this.#youngWeight = 0;
    this.#old = new Map();
    this.#oldWeight = 0;
  }

  get figures(): CacheFigures {
    return { entries: this.#young.size + this.#old.size, hits: this.#hits, misses: this.#misses };
  }

  #keep(key: K, entry: Entry<V>): void {
    this.delete(key);
    const { limit } = this.#options;
    if (entry.weight > limit) return;
    if (this.#youngWeight + entry.weight > limit / 2) {
      this.#old = this.#young;
      this.#oldWeight = this.#youngWeight;
      this.#young = new Map();
      this.#youngWeight = 0;
    }
    this.#young.set(key, entry);
    this.#youngWeight += entry.weight;
    // Only a value heavier than half of the limit leads here.
    if (this.#youngWeight + this.#oldWeight > limit) {
      this.#old = new Map();
      this.#oldWeight = 0;
    }
  }
}

/** The caches of a process. Their figures are on `/-/metrics`. */
export class Caches {
  readonly #all: { readonly name: string; readonly figures: CacheFigures; clear(): void }[] = [];

  create<K, V extends {}>(options: CacheOptions<V>): Cache<K, V> {
    const cache = new Cache<K, V>(options);
    this.#all.push(cache);
    return cache;
  }

  /** Forgets everything that is cached. */
  clear(): void {
    for (const cache of this.#all) cache.clear();
  }

  /** Returns the sums of the figures by name. */
  figures(): ReadonlyMap<string, CacheFigures> {
    const sums = new Map<string, CacheFigures>();
    for (const { name, figures } of this.#all) {
      const { entries, hits, misses } = sums.get(name) ?? { entries: 0, hits: 0, misses: 0 };
      sums.set(name, {
        entries: entries + figures.entries,
        hits: hits + figures.hits,
        misses: misses + figures.misses,
      });
    }
    return sums;
  }
}

/**
 * Declares a cache that each process creates on first use: `const answers = defineCache<string, Answer>({...})`, then
 * `answers(ctx.services).get(key)`.
 */
export const defineCache = <K, V extends {}>(
  options: CacheOptions<V>,
): ((services: { readonly caches: Caches }) => Cache<K, V>) => {
  const created = new WeakMap<Caches, Cache<K, V>>();
  return ({ caches }) => {
    let cache = created.get(caches);
    if (!cache) {
      cache = caches.create(options);
      created.set(caches, cache);
    }
    return cache;
  };
};
