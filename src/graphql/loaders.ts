import DataLoader from 'dataloader';
import type { Context } from '#platform/context.ts';

/** What a loader asks a domain for: all rows with these ids, keyed by id (`xByIds`). */
export type RowsByIds<K, V> = (ctx: Context, ids: readonly K[]) => Promise<ReadonlyMap<K, V>>;

const registries = new WeakMap<Context, Map<unknown, Clearable>>();

interface Clearable {
  clearAll(): unknown;
}

/**
 * Declares a loader: `const userById = loader(usersByIds)`, then in resolvers `userById(ctx, row.author_id)`. What
 * one tick asks for is fetched by one call; answers are kept for the request. Ids without a row give null.
 */
export const loader = <K, V>(fetch: RowsByIds<K, V>): ((ctx: Context, id: K) => Promise<V | null>) => {
  const loaders = new WeakMap<Context, DataLoader<K, V | null>>();
  return (ctx, id) => {
    let found = loaders.get(ctx);
    if (!found) {
      found = new DataLoader<K, V | null>(async (ids) => {
        const rows = await fetch(ctx, ids);
        return ids.map((each) => rows.get(each) ?? null);
      });
      loaders.set(ctx, found);
      registry(ctx).set(fetch, found);
    }
    return found.load(id);
  };
};

/** Forgets what this request's loaders have fetched: after a mutation the rows may differ. */
export const clearLoaders = (ctx: Context): void => {
  for (const each of registries.get(ctx)?.values() ?? []) each.clearAll();
};

const registry = (ctx: Context): Map<unknown, Clearable> => {
  const map = registries.get(ctx) ?? new Map<unknown, Clearable>();
  registries.set(ctx, map);
  return map;
};
