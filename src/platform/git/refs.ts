import type { SortDirection } from '#platform/paging.ts';
import type { CallOptions } from './call-options.ts';

/** Branches, tags and other refs. Part of `Git` (types.ts). */
export interface GitRefs {
  /** Returns the refs below a prefix in byte order of their names, unless `order` is given. */
  listRefs(path: string, options: ListRefsOptions): Promise<Ref[]>;
  /** Returns the values of refs by their full names (the tag object for an annotated tag). Leaves out missing refs. */
  refValues(path: string, names: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Returns those of these refs, by their full names, that exist. Costs less than their values. */
  existingRefs(path: string, names: readonly string[]): Promise<ReadonlySet<string>>;
  /** Returns the value of a full ref name (the tag object for an annotated tag), or null. */
  resolve(path: string, ref: string): Promise<string | null>;
  /**
   * Returns the commit for a revision typed by a user: a branch, else a tag, else a full or abbreviated (7 or more)
   * commit id. Null for anything else.
   */
  resolveCommit(path: string, revision: string): Promise<string | null>;
  /** Returns the commit that the steps lead back to, or null if the history is too short for them. */
  commitBefore(path: string, oid: string, steps: readonly RevisionStep[]): Promise<string | null>;
  /**
   * Moves all refs or none. @throws GitError `conflict` if a ref does not hold its `oldOid` or conflicts with another
   * name
   */
  updateRefs(path: string, changes: readonly RefChange[]): Promise<void>;
}

/**
 * A ref with its full name. For an annotated tag, `oid` is the tag object and `peeledOid` the object that it points at.
 */
export interface Ref {
  readonly name: string;
  readonly oid: string;
  readonly peeledOid: string;
  /** The message of an annotated tag. Null for all other refs. */
  readonly message: string | null;
}

export interface ListRefsOptions extends CallOptions {
  /** A full prefix that ends with a slash, such as `refs/heads/`. */
  readonly prefix: string;
  /**
   * `updated_*`: by commit time. `created_*`: by the time of the annotated tag, else of the commit. Equal times are
   * sorted by name. `version_*`: by name, with digits compared as numbers.
   */
  readonly order?: 'name' | `${'updated' | 'created' | 'version'}_${SortDirection}` | undefined;
  readonly limit?: number | undefined;
  /** Only refs that sort after this full name (byte order). */
  readonly after?: string | undefined;
  /** Called with the name without `prefix`. */
  readonly match?: ((shortName: string) => boolean) | undefined;
}

/**
 * A step from a commit to an earlier one: to its parent with this number, or back this many generations of first
 * parents.
 */
export type RevisionStep = { readonly parent: number } | { readonly generations: number };

export interface RefChange {
  /** Full name: `refs/heads/...`, `refs/tags/...`, `refs/merge-requests/...`, `refs/keep-around/...`. */
  readonly ref: string;
  /** The current value that the ref must have. Null means it must not exist; absent means any value. */
  readonly oldOid?: string | null | undefined;
  /** Null deletes the ref. */
  readonly newOid: string | null;
}
