import DataLoader from 'dataloader';
import type { Context } from '#platform/context.ts';

/** Fetches all rows with these ids from a domain, keyed by id (`xByIds`). */
export type RowsByIds<K, V> = (ctx: Context, ids: readonly K[]) => Promise<ReadonlyMap<K, V>>;

const registries = new WeakMap<Context, Map<unknown, Clearable>>();

interface Clearable {
  clearAll(): unknown;
}

export interface Loader<K, V> {
  (ctx: Context, id: K): Promise<V | null>;
  /**
   * Like the call itself, but returns a prefetched row synchronously: in a long list, a promise per row costs more than
   * the row.
   */
  find(ctx: Context, id: K): V | null | Promise<V | null>;
  /** Prefetches ids that rows are about to request through `find`. */
  ahead(ctx: Context, ids: Iterable<K>): Promise<void>;
}

/**
 * Declares a loader: `const userById = loader(usersByIds)`, then in resolvers `userById(ctx, row.author_id)`. All ids
 * requested in one tick are fetched by one call, and the results are cached for the request. Ids without a row give
 * null.
 */
export const loader = <K, V>(fetch: RowsByIds<K, V>): Loader<K, V> => {
  const requests = new WeakMap<Context, Loaded<K, V>>();
  const loadedIn = (ctx: Context): Loaded<K, V> => {
    let found = requests.get(ctx);
    if (!found) {
      found = new Loaded(ctx, fetch);
      requests.set(ctx, found);
      registry(ctx).set(fetch, found);
    }
    return found;
  };
  const load = (ctx: Context, id: K): Promise<V | null> => loadedIn(ctx).load(id);
  return Object.assign(load, {
    find: (ctx: Context, id: K) => loadedIn(ctx).find(id),
    ahead: (ctx: Context, ids: Iterable<K>) => loadedIn(ctx).ahead(ids),
  });
};

/** The results of a loader for one request. */
class Loaded<K, V> {
  readonly #ctx: Context;
  readonly #fetch: RowsByIds<K, V>;
  readonly #ahead = new Map<K, V | null>();
  readonly #loader: DataLoader<K, V | null>;

  constructor(ctx: Context, fetch: RowsByIds<K, V>) {
    this.#ctx = ctx;
    this.#fetch = fetch;
    this.#loader = new DataLoader<K, V | null>(async (ids) => {
      const rows = await fetch(ctx, ids);
      return ids.map((each) => rows.get(each) ?? null);
    });
  }

  load(id: K): Promise<V | null> {
    const known = this.#ahead.get(id);
    return known === undefined ? this.#loader.load(id) : Promise.resolve(known);
  }

  find(id: K): V | null | Promise<V | null> {
    const known = this.#ahead.get(id);
    return known === undefined ? this.#loader.load(id) : known;
  }

  async ahead(ids: Iterable<K>): Promise<void> {
    const missing = [...new Set(ids)].filter((id) => !this.#ahead.has(id));
    if (missing.length === 0) return;
    const rows = await this.#fetch(this.#ctx, missing);
    for (const id of missing) this.#ahead.set(id, rows.get(id) ?? null);
  }

  clearAll(): void {
    this.#ahead.clear();
    this.#loader.clearAll();
  }
}

/** Clears the request's loader caches, because a mutation may have changed the rows. */
export const clearLoaders = (ctx: Context): void => {
  for (const each of registries.get(ctx)?.values() ?? []) each.clearAll();
};

const registry = (ctx: Context): Map<unknown, Clearable> => {
  const map = registries.get(ctx) ?? new Map<unknown, Clearable>();
  registries.set(ctx, map);
  return map;
};
