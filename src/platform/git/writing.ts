import type { CallOptions } from './call-options.ts';
import type { CommitText, Identity, NewObjects, PlacedCommit } from './objects.ts';

/** New commits and tags. Part of `Git` (types.ts). */
export interface GitWriting {
  /**
   * Creates a commit of changed files without a work tree, all or nothing. Resolves to its id. No ref moves, and until
   * one does, the commit is invisible.
   *
   * @throws GitError `invalid` for an invalid path, and for a file that should or should not exist
   */
  createCommit(path: string, commit: FilesCommit, options?: CreateCommitOptions): Promise<string>;
  /** Like `createCommit`, but also moves a branch. @throws GitError `conflict` if the branch is not at `parent` */
  commitFiles(path: string, commit: FilesCommit & { readonly branch: string }): Promise<string>;
  /** Creates the object of an annotated tag. No ref moves. */
  createTagObject(path: string, tag: NewTagObject, judge?: Judge): Promise<string>;

  /** Creates a commit of the changes from `base` to `changed`, on top of `onto`. No ref moves. */
  applyChange(path: string, change: ChangeToApply, judge?: Judge): Promise<AppliedChange>;
  /**
   * Creates the commits that merge `theirs` into `ours`: a squashed one, a merge, or both. No ref moves. `oid` is the
   * commit that the branch of `ours` should move to.
   */
  mergeCommits(path: string, merge: CommitsToMerge, judge?: Judge): Promise<CommitsMerged>;
  /**
   * Creates the commits of a rebase: those of `head` that `onto` lacks, except merges, on top of `onto`. Keeps authors
   * and messages. Leaves out commits whose changes `onto` has already. No ref moves.
   */
  rebaseCommits(path: string, rebase: CommitsToRebase, judge?: Judge): Promise<CommitsRebased>;

  /**
   * Merges a commit of another repository into a commit of this one. Returns the other commit if it contains this one,
   * this commit if nothing is new, and else a merge of both. Copies the objects and moves no ref. Fails with `conflict`
   * also for commits without a common ancestor.
   */
  mergeForeign(own: PlacedCommit, other: PlacedCommit, merge: CommitText, judge?: Judge): Promise<MergedCommit>;
  /** Copies a commit of another repository with its history. Until a ref names it, `gc` may remove it after two weeks. */
  copyCommit(path: string, other: PlacedCommit): Promise<void>;
  /** Returns true if `mergeForeign` would find no conflict. */
  mergesCleanly(own: PlacedCommit, other: PlacedCommit): Promise<boolean>;
  /** Returns those of the commits that merge into the commit `ours` without conflicts. */
  mergeableInto(
    path: string,
    ours: string,
    theirs: readonly string[],
    options?: Pick<CallOptions, 'signal'>,
  ): Promise<ReadonlySet<string>>;
}

export const FILE_ACTIONS = ['create', 'update', 'move', 'delete', 'chmod'] as const;

export interface FileChange {
  readonly action: (typeof FILE_ACTIONS)[number];
  readonly path: string;
  /** For `move`: the current path of the file. */
  readonly previousPath?: string | undefined;
  /** Required for `create` and `update`. Optional for `move`, which may also change the content. */
  readonly content?: Buffer | string | undefined;
  /** Unchanged if absent; `100644` on create. */
  readonly mode?: '100644' | '100755' | '120000' | undefined;
}

export interface FilesCommit {
  /** Null for the first commit of a history. */
  readonly parent: string | null;
  readonly message: string;
  readonly author: Identity;
  readonly committer: Identity;
  /** Applied one after the other. */
  readonly files: readonly FileChange[];
}

/** Checks a new commit or tag before the repository contains it. If it throws, the object is never added. */
export type Judge = (oid: string, objects: NewObjects) => Promise<void>;

export interface CreateCommitOptions {
  readonly judge?: Judge | undefined;
  /** Another repository that contains the parent. Missing objects are copied from it. */
  readonly from?: string | undefined;
}

export interface NewTagObject {
  readonly name: string;
  readonly commit: string;
  readonly message: string;
  readonly tagger: Identity;
}

export interface ChangeToApply {
  /** Commit ids, or null for the empty tree. */
  readonly base: string | null;
  readonly changed: string | null;
  readonly onto: string;
  readonly message: string;
  readonly author: Identity;
  readonly committer: Identity;
}

/** `conflict`: both sides changed the same lines. `empty`: nothing would change. */
export type AppliedChange = { readonly oid: string } | { readonly failed: 'conflict' | 'empty' };

export interface CommitsToMerge {
  readonly ours: string;
  readonly theirs: string;
  /** The tree of both merged, if the caller knows it. */
  readonly tree?: string | null | undefined;
  /** Replaces the commits of `theirs` by one. */
  readonly squash?: CommitText | undefined;
  /** Makes a merge commit. Without it the branch is fast-forwarded, so `theirs` must contain `ours`. */
  readonly merge?: CommitText | undefined;
}

export type CommitsMerged =
  | { readonly oid: string; readonly squashOid: string | null }
  | { readonly failed: 'conflict' };

export interface CommitsToRebase {
  readonly head: string;
  readonly onto: string;
  readonly committer: Identity;
}

/** `too_many`: the branch has more commits than a rebase may take. */
export type CommitsRebased = { readonly oid: string } | { readonly failed: 'conflict' | 'too_many' };

export type MergedCommit = { readonly oid: string } | { readonly failed: 'conflict' };
