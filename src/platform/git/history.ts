import type { CallOptions, ForeignOptions } from './call-options.ts';
import type { Commit, PlacedCommit } from './objects.ts';

/** Reads of commits, and of how they are related. Part of `Git` (types.ts). */
export interface GitHistory {
  /** Returns the commits in the given order. Leaves out ids that are not commits here. */
  readCommits(path: string, oids: readonly string[]): Promise<Commit[]>;
  listCommits(path: string, options: ListCommitsOptions): Promise<Commit[]>;
  countCommits(path: string, range: RevisionRange & CallOptions): Promise<number>;
  /**
   * Returns the commits that a push added to a branch: those since `oldOid`, or for a created branch those on no other
   * branch.
   */
  newCommits(path: string, newOid: string, oldOid: string | null, options?: NewCommitsOptions): Promise<NewCommits>;
  /**
   * Returns the paths that each commit changed relative to its first parent, at most 5,000 per commit. If commits
   * change hundreds of thousands of paths, they and the following ones have fewer or none.
   */
  changedFiles(path: string, oids: readonly string[]): Promise<ReadonlyMap<string, ChangedFiles>>;
  /** Returns the lines added and removed by each commit relative to its first parent, in one pass. */
  commitStats(path: string, oids: readonly string[], options?: CallOptions): Promise<ReadonlyMap<string, CommitStats>>;
  /** Returns the authors of the commits without merges: each name and address once, with its number of commits. */
  authors(path: string, range: Pick<RevisionRange, 'from'> & CallOptions): Promise<Author[]>;
  /** Returns the kind of signature of a commit without verifying it, or null if there is none. */
  signatureOf(path: string, oid: string): Promise<SignatureKind | null>;
  /**
   * Returns the commit that last changed each line of a file, as runs of lines of one commit. Empty for a range after
   * the end of the file.
   */
  blame(path: string, commitOid: string, filePath: string, options?: BlameOptions): Promise<BlamedLines[]>;
  /** Returns the newest commit that changed the path, in the history up to `commitOid`, or null. */
  lastCommitOf(path: string, commitOid: string, filePath: string, options?: CallOptions): Promise<string | null>;

  isAncestor(path: string, ancestorOid: string, descendantOid: string): Promise<boolean>;
  /**
   * Returns those of the commits (tips of branches) that the commit `targetOid` contains. Uses one process for all, and
   * none for cached results.
   */
  containedIn(path: string, targetOid: string, oids: readonly string[]): Promise<ReadonlySet<string>>;
  /**
   * Returns the merge commit on the first-parent history of `targetOid` that brought `oid` into it. Null if the target
   * was fast-forwarded to `oid`, or the merge is older than a thousand others.
   */
  mergeCommitOf(path: string, targetOid: string, oid: string): Promise<string | null>;
  /** Returns the best common ancestor of two or more commits, or null. */
  mergeBase(path: string, oids: readonly string[], options?: ForeignOptions & CallOptions): Promise<string | null>;
  /** Returns the full names of the branches, or tags, that contain a commit. */
  refsContaining(
    path: string,
    oid: string,
    prefix: 'refs/heads/' | 'refs/tags/',
    options?: CallOptions,
  ): Promise<string[]>;
  /**
   * Returns how many commits each of the heads has that the target lacks, or null if they are too many to count at
   * once. Uses one process for all.
   */
  commitsAhead(path: string, targetOid: string, heads: readonly string[]): Promise<ReadonlyMap<string, number> | null>;
  /** Returns how many commits each of two commits, of two repositories, has that the other lacks. */
  divergence(own: PlacedCommit, other: PlacedCommit): Promise<{ readonly ahead: number; readonly behind: number }>;
}

export interface RevisionRange {
  /** Full object ids or full ref names. User input must pass `resolveCommit` first. */
  readonly from: string | readonly string[];
  /** Also starts from every branch and tag. */
  readonly all?: boolean | undefined;
  /** Leaves out commits reachable from these. */
  readonly not?: readonly string[] | undefined;
  readonly path?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  /** A fixed text to find in the author's name or email, ignoring case. */
  readonly author?: string | undefined;
  readonly firstParent?: boolean | undefined;
  /** No commit before its children, and lines of history one after the other. Otherwise sorted by time. */
  readonly topological?: boolean | undefined;
}

export interface ListCommitsOptions extends RevisionRange, ForeignOptions, CallOptions {
  readonly limit: number;
  readonly skip?: number | undefined;
  /** Cuts each message at so many characters, and all together at `total`: then only their beginnings are left. */
  readonly messages?: { readonly each: number; readonly total: number } | undefined;
}

export interface NewCommits {
  /** Newest first, at most `limit`. */
  readonly commits: readonly Commit[];
  readonly total: number;
}

export interface NewCommitsOptions extends CallOptions {
  readonly limit?: number | undefined;
  /** For a created branch: the refs that this push moved. They do not count as having contained the commits before. */
  readonly excludeRefs?: readonly string[] | undefined;
}

export interface ChangedFiles {
  readonly added: readonly string[];
  readonly modified: readonly string[];
  readonly removed: readonly string[];
}

/** Changed files that are still being collected. */
export type ChangedFilesDraft = Record<keyof ChangedFiles, string[]>;

export interface CommitStats {
  readonly additions: number;
  readonly deletions: number;
  readonly total: number;
}

export interface Author {
  readonly name: string;
  readonly email: string;
  readonly commits: number;
}

export type SignatureKind = 'PGP' | 'SSH' | 'X509';

export interface BlameOptions extends CallOptions {
  /** Line numbers from 1, both inclusive. */
  readonly range?: { readonly start: number; readonly end: number } | undefined;
}

export interface BlamedLines {
  readonly oid: string;
  readonly lines: readonly string[];
}
