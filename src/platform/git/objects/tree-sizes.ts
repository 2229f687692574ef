import { defineCache } from '../../cache.ts';
import type { CallOptions } from '../call-options.ts';
import type { Runner } from '../process/runner.ts';
import { requireOids } from '../ref-names.ts';
import { openSession } from './reader.ts';

/** A longer tree is not read: it exceeds every allowed limit. */
const MAX_LISTING_BYTES = 4 * 1024 * 1024;
/** The shortest entry: mode, space, a name of one byte, NUL, id. */
const MIN_ENTRY_BYTES = 28;
const AT_ONCE = 16;
/** The maximum number of branches and tags to check. */
const MAX_TIPS = 100;
const TREE_MODE = 0x34; // only the mode of a folder, `40000`, starts with a 4

/** The number of paths below each tree. The content of an id never changes, so this is valid for every repository. */
const cachedCounts = defineCache<string, number>({ name: 'paths below trees', limit: 50_000 });

/** The objects that were read below a tree. The counts include cached ones, which the cache may drop meanwhile. */
interface Gathered {
  readonly listings: Map<string, Listing>;
  readonly counts: Map<string, number>;
}

interface Listing {
  readonly entries: number;
  readonly folders: readonly string[];
}

/**
 * Returns the first of the tips with more than `atMost` files and folders, or null. Reads each tree once, however often
 * it is used: nested identical folders can describe a million files in a few hundred bytes. `env` lets git see objects
 * in quarantine. Skips tips that lead to no tree.
 */
export const tipBeyond = async (
  runner: Runner,
  path: string,
  env: Readonly<Record<string, string>>,
  tips: readonly string[],
  atMost: number,
  { signal }: Pick<CallOptions, 'signal'> = {},
): Promise<string | null> => {
  requireOids(tips);
  const session = openSession(runner, path, () => {}, { env, maxKeptBytes: MAX_LISTING_BYTES });
  const cache = cachedCounts(runner);
  const read = async (name: string): Promise<{ readonly oid: string; readonly listing: Listing } | null> => {
    const object = await session.request('contents', name);
    if (object?.type !== 'tree') return null;
    const isWhole = object.size <= MAX_LISTING_BYTES;
    return {
      oid: object.oid,
      listing: isWhole ? parse(object.content) : { entries: Math.floor(object.size / MIN_ENTRY_BYTES), folders: [] },
    };
  };

  /** Returns false if there are more distinct folders than allowed paths. */
  const gather = async (root: string, { listings, counts }: Gathered): Promise<boolean> => {
    const wanted = [root];
    const seen = new Set(wanted);
    while (wanted.length > 0) {
      signal?.throwIfAborted();
      for (const found of await Promise.all(wanted.splice(-AT_ONCE).map(read))) {
        if (found === null) continue;
        listings.set(found.oid, found.listing);
        for (const folder of found.listing.folders) {
          if (seen.has(folder) || counts.has(folder)) continue;
          const known = cache.get(folder);
          if (known !== undefined) {
            counts.set(folder, known);
            continue;
          }
          seen.add(folder);
          wanted.push(folder);
        }
      }
      if (seen.size > atMost) return false;
    }
    return true;
  };

  try {
    for (const tip of tips.slice(0, MAX_TIPS)) {
      const tree = await session.request('info', `${tip}^{tree}`);
      if (tree === null) continue;
      const known = cache.get(tree.oid);
      if (known !== undefined) {
        if (known > atMost) return tip;
        continue;
      }
      const gathered: Gathered = { listings: new Map(), counts: new Map() };
      if (!(await gather(tree.oid, gathered))) return tip;
      const below = count(tree.oid, gathered);
      for (const [oid, paths] of gathered.counts) if (gathered.listings.has(oid)) cache.set(oid, paths);
      if (below > atMost) return tip;
    }
    return null;
  } finally {
    void session.end();
  }
};

/** Counts the paths below a tree. Not recursive, because users can nest folders as deep as they like. */
const count = (root: string, { listings, counts }: Gathered): number => {
  const known = (oid: string) => counts.get(oid) ?? (listings.has(oid) ? undefined : 0);
  const stack = [root];
  for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
    const listing = listings.get(top);
    const missing = listing?.folders.filter((folder) => known(folder) === undefined) ?? [];
    if (missing.length > 0 && !counts.has(top)) {
      stack.push(...new Set(missing));
      continue;
    }
    stack.pop();
    if (!listing || counts.has(top)) continue;
    const below = listing.folders.reduce((sum, folder) => sum + (known(folder) ?? 0), listing.entries);
    counts.set(top, below);
  }
  return known(root) ?? 0;
};

/** Parses the entries of a tree: mode, space, name, NUL and the bytes of the id. */
const parse = (content: Buffer): Listing => {
  const folders: string[] = [];
  let entries = 0;
  for (let at = 0; at < content.length; ) {
    const end = content.indexOf(0, at);
    if (end === -1) break;
    if (content[at] === TREE_MODE) folders.push(content.toString('hex', end + 1, end + 21));
    entries += 1;
    at = end + 21;
  }
  return { entries, folders };
};
