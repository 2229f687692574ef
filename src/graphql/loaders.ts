import DataLoader from 'dataloader';
import type { Context } from '#platform/context.ts';

/** What a loader asks a domain for: all rows with these ids, keyed by id (`xByIds`). */
export type RowsByIds<K, V> = (ctx: Context, ids: readonly K[]) => Promise<ReadonlyMap<K, V>>;

const registries = new WeakMap<Context, Map<unknown, Clearable>>();

interface Clearable {
  clearAll(): unknown;
}

export interface Loader<K, V> {
  (ctx: Context, id: K): Promise<V | null>;
  /** The same, at once where it was fetched ahead: a promise for each row of a long list costs more than the row. */
  find(ctx: Context, id: K): V | null | Promise<V | null>;
  /** Fetches what rows just read are going to ask for by `find`. */
  ahead(ctx: Context, ids: Iterable<K>): Promise<void>;
}

/**
 * Declares a loader: `const userById = loader(usersByIds)`, then in resolvers `userById(ctx, row.author_id)`. What
 * one tick asks for is fetched by one call; answers are kept for the request. Ids without a row give null.
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

/** What a loader has fetched for one request. */
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

/** Forgets what this request's loaders have fetched: after a mutation the rows may differ. */
export const clearLoaders = (ctx: Context): void => {
  for (const each of registries.get(ctx)?.values() ?? []) each.clearAll();
};

const registry = (ctx: Context): Map<unknown, Clearable> => {
  const map = registries.get(ctx) ?? new Map<unknown, Clearable>();
  registries.set(ctx, map);
  return map;
};
