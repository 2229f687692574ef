import type { Readable } from 'node:stream';
import type { SortDirection } from '#platform/paging.ts';
import type { ForeignOptions, GitReading } from './reading.ts';

/**
 * Everything that the hub does with repositories. They are bare and identified by a storage path relative to the root,
 * such as `@hashed/ab/cd/42.git`. All functions throw `GitError` (git-error.ts), whose message is safe to show to
 * users.
 */
export interface Git extends GitReading {
  /** Returns the version of git. Fails if it is older than 2.38. */
  requireVersion(): Promise<string>;

  /** Creates an empty bare repository whose HEAD names `defaultBranch`. Leaves an existing repository unchanged. */
  init(path: string, defaultBranch: string): Promise<void>;
  /** Removes the repository and what an interrupted import left next to it. Succeeds if there is nothing to remove. */
  remove(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** Returns true if the storage belongs to `owner`. The first caller claims it permanently. */
  claim(owner: string): Promise<boolean>;
  /**
   * Returns the paths of all repositories in a storage folder such as `@hashed/ab`, including repositories being built.
   */
  stored(folder: string): Promise<string[]>;
  /** Returns when the folder of the repository last changed, or null if there is none. */
  changedAt(path: string): Promise<Date | null>;
  /** Returns true if the repository has no branch and no tag. */
  isEmpty(path: string): Promise<boolean>;
  /**
   * Returns the branch that HEAD names, without `refs/heads/`. The branch may have no commits. Null if HEAD names no
   * branch.
   */
  head(path: string): Promise<string | null>;
  setHead(path: string, branch: string): Promise<void>;
  /** Returns the number of bytes of the objects on disk. */
  diskSize(path: string): Promise<number>;
  /**
   * Packs loose objects, small packs and refs, and writes the commit graph. Takes time in proportion to what is new. Readers
   * and pushes go on meanwhile.
   */
  pack(path: string, options?: CallOptions): Promise<void>;
  /** Packs all objects and refs, and deletes objects that have been unreachable for two weeks. */
  gc(path: string, options?: CallOptions): Promise<void>;

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
  /**
   * Returns those of the commits (tips of branches) that the commit `targetOid` contains. Uses one process for all, and
   * none for cached results.
   */
  containedIn(path: string, targetOid: string, oids: readonly string[]): Promise<ReadonlySet<string>>;
  isAncestor(path: string, ancestorOid: string, descendantOid: string): Promise<boolean>;
  /**
   * Returns the merge commit on the first-parent history of `targetOid` that brought `oid` into it. Null if the target
   * was fast-forwarded to `oid`, or the merge is older than a thousand others.
   */
  mergeCommitOf(path: string, targetOid: string, oid: string): Promise<string | null>;

  /** Returns the commits in the given order. Leaves out ids that are not commits here. */
  readCommits(path: string, oids: readonly string[]): Promise<Commit[]>;
  /** Occupies a process while the blob is read. Ends when the reader takes nothing for `idleTimeoutMs`. */
  readBlob(path: string, oid: string, options?: ReadBlobOptions): Promise<Blob | null>;
  /** Returns the entry at a path of a commit or tree, or null. */
  findFile(path: string, treeish: string, filePath: string): Promise<TreeEntry | null>;
  /** Yields every file of a commit with its size, in git's order. The reader may stop early. */
  allFiles(path: string, treeish: string, options?: CallOptions): AsyncGenerator<FileEntry>;
  /**
   * Returns the values that `.gitattributes` files give to paths, by path and name: `set`, `unset` or the value. Leaves
   * out unspecified attributes.
   */
  attributesOf(
    path: string,
    wanted: {
      /** The `.gitattributes` files of one commit. */
      readonly files: readonly FileEntry[];
      readonly names: readonly string[];
      readonly paths: readonly string[];
    },
    options?: CallOptions,
  ): Promise<ReadonlyMap<string, ReadonlyMap<string, string>>>;
  /** Returns the first bytes of a small blob through a process that stays open, or null if there is no such blob. */
  readBeginning(path: string, oid: string, bytes: number): Promise<Buffer | null>;
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
  /**
   * Returns the objects that commits of the repository add and no ref reaches, usually none. For a push see
   * `onReceived`.
   */
  newObjects(path: string): NewObjects;
  /**
   * Creates a commit of changed files without a work tree, all or nothing. Resolves to its id. No ref moves, and until
   * one does, the commit is invisible.
   *
   * @throws GitError `invalid` for an invalid path, and for a file that should or should not exist
   */
  createCommit(path: string, commit: FilesCommit, options?: CreateCommitOptions): Promise<string>;
  /** Like `createCommit`, but also moves a branch. @throws GitError `conflict` if the branch is not at `parent` */
  commitFiles(path: string, commit: FilesCommit & { readonly branch: string }): Promise<string>;
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
  /** Creates the object of an annotated tag. No ref moves. */
  createTagObject(path: string, tag: NewTagObject, judge?: Judge): Promise<string>;
  /** Returns the annotated tags among the ids, in the given order. */
  readTagObjects(path: string, oids: readonly string[]): Promise<TagObject[]>;

  /** Returns the body of `GET /info/refs?service=...` (`application/x-<service>-advertisement`). */
  advertise(path: string, service: Service, options?: ProtocolOptions & CallOptions): Promise<Readable>;
  /**
   * Serves `POST /<service>`. `body` is already decompressed (`decodedBody`). Resolves when the commands of a push are
   * read and judged. Rejects with `invalid` for a malformed request, before anything has been sent.
   */
  serve(path: string, service: Service, body: Readable, options?: ServeOptions): Promise<Served>;

  /** Returns a bundle of HEAD, branches, tags, merge request and keep-around refs, or null if there are none. */
  createBundle(path: string, options?: CallOptions): Promise<Readable | null>;
  /**
   * Creates a new repository from a bundle (a stream or a file), all or nothing. @throws GitError `invalid` for a
   * broken bundle
   */
  fetchBundle(path: string, bundle: Readable | string, options?: FetchBundleOptions): Promise<FetchedBundle>;

  /**
   * Makes `to` a copy of the branches and tags of `from`, or of a single branch, all or nothing. Replaces any
   * repository at `to`. The object files are copied or hard-linked, so neither repository depends on the other.
   *
   * @throws GitError `missing` if the branch does not exist
   */
  copyRepository(from: string, to: string, options: CopyOptions): Promise<{ readonly branches: number }>;
  /** Returns how many commits each of two commits, of two repositories, has that the other lacks. */
  divergence(own: PlacedCommit, other: PlacedCommit): Promise<{ readonly ahead: number; readonly behind: number }>;
  /**
   * Merges a commit of another repository into a commit of this one. Returns the other commit if it contains this one,
   * this commit if nothing is new, and else a merge of both. Copies the objects and moves no ref. Fails with `conflict`
   * also for commits without a common ancestor.
   */
  mergeForeign(own: PlacedCommit, other: PlacedCommit, merge: MergeCommit, judge?: Judge): Promise<MergedCommit>;
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
  /**
   * Returns how many commits each of the heads has that the target lacks, or null if they are too many to count at
   * once. Uses one process for all.
   */
  commitsAhead(path: string, targetOid: string, heads: readonly string[]): Promise<ReadonlyMap<string, number> | null>;
  /**
   * Makes `path` a clone of the branches and tags of another server, all or nothing.
   *
   * @throws GitError `invalid` if the remote cannot be a repository here
   */
  cloneRemote(path: string, remote: Remote, options?: CloneOptions): Promise<FetchedBundle>;

  /** Ends the helper processes that are kept open. */
  close(): Promise<void>;
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

/** A commit with the field names of spec 1 §2.4. The interfaces add `created_at` and `web_url`. */
export interface Commit {
  readonly id: string;
  readonly short_id: string;
  readonly parent_ids: readonly string[];
  readonly title: string;
  readonly message: string;
  readonly author_name: string;
  readonly author_email: string;
  /** ISO 8601 with the offset of the author, such as `2024-01-31T10:00:00.000+02:00`. */
  readonly authored_date: string;
  readonly committer_name: string;
  readonly committer_email: string;
  readonly committed_date: string;
  /** The last value of each key. */
  readonly trailers: Readonly<Record<string, string>>;
  /** All values of each key, in the order of the message. */
  readonly extended_trailers: Readonly<Record<string, readonly string[]>>;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

export interface ReadBlobOptions extends CallOptions {
  readonly idleTimeoutMs?: number | undefined;
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

/**
 * The objects that the tips (ids of commits or tags) add and no ref of the repository reaches yet. They are streams, so
 * memory use does not depend on their number. They fail with `timeout` when the time is over.
 */
export interface NewObjects {
  commits(tips: readonly string[], options?: CallOptions): AsyncIterable<NewCommit>;
  /** The files that the commits add. A renamed file is added under its new name. */
  files(tips: readonly string[], options?: CallOptions): AsyncIterable<NewFile>;
  /** The blobs larger than `bytes` that the repository did not contain before. */
  blobsOver(tips: readonly string[], bytes: number, options?: CallOptions): AsyncIterable<NewBlob>;
  /** Returns the first of the tips that contains the commit, or null. */
  holderOf(tips: readonly string[], oid: string, options?: CallOptions): Promise<string | null>;
  /** Returns the first of the tips (only a hundred are checked) with more than `atMost` files and folders, or null. */
  tipBeyond(tips: readonly string[], atMost: number, options?: Pick<CallOptions, 'signal'>): Promise<string | null>;
  /** Returns the oldest commit that adds the object, or null. */
  commitWith(tips: readonly string[], oid: string, options?: CallOptions): Promise<string | null>;
}

export interface NewCommit extends Commit {
  /** True if there is a signature, which is not verified. */
  readonly isSigned: boolean;
  /** False for a commit of more than 1 MiB, for which only the id is set. */
  readonly isWhole: boolean;
}

export interface NewFile {
  readonly commit: string;
  readonly path: string;
}

export interface NewBlob {
  readonly oid: string;
  readonly size: number;
  /** One of its paths. Empty for a blob that a tag points at. */
  readonly path: string;
}

export interface ChangedFiles {
  readonly added: readonly string[];
  readonly modified: readonly string[];
  readonly removed: readonly string[];
}

/** Changed files that are still being collected. */
export type ChangedFilesDraft = Record<keyof ChangedFiles, string[]>;

export interface TreeEntry {
  readonly mode: string;
  readonly type: 'blob' | 'tree' | 'commit';
  readonly oid: string;
  /** Bytes of a blob. Null for other types. */
  readonly size: number | null;
  /** The path from the root of the tree. */
  readonly path: string;
}

/** A file, link or executable of a tree, by its path from the root. */
export interface FileEntry {
  readonly mode: string;
  readonly oid: string;
  readonly size: number;
  readonly path: string;
}

export interface Blob {
  readonly size: number;
  readonly stream: Readable;
}

export interface Identity {
  readonly name: string;
  readonly email: string;
  readonly date: Date;
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

interface CommitText {
  readonly message: string;
  readonly author: Identity;
  readonly committer: Identity;
}

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

export interface NewTagObject {
  readonly name: string;
  readonly commit: string;
  readonly message: string;
  readonly tagger: Identity;
}

export interface TagObject {
  readonly id: string;
  readonly message: string;
  /** ISO 8601 with the offset of the tagger. Null if the tag has no tagger. */
  readonly tagged_date: string | null;
  readonly is_signed: boolean;
}

export type Service = 'git-upload-pack' | 'git-receive-pack';

export interface ProtocolOptions {
  /** The raw `Git-Protocol` header. Unknown versions are ignored. */
  readonly gitProtocol?: string | undefined;
}

/** A ref update requested by a push. Null on either side means that the ref does not exist. */
export interface RefUpdate {
  readonly ref: string;
  readonly oldOid: string | null;
  readonly newOid: string | null;
}

export interface RefRefusal {
  readonly ref: string;
  /** One line, shown to the user who pushed. */
  readonly reason: string;
}

export interface PushVerdict {
  /** A single refusal refuses the whole push. */
  readonly refused?: readonly RefRefusal[] | undefined;
  /** Full refs that may only be fast-forwarded. If the received objects show otherwise, the whole push is refused. */
  readonly fastForwardOnly?: readonly string[] | undefined;
  /** Lines for the terminal of the user who pushed, whatever the outcome. */
  readonly messages?: readonly string[] | undefined;
}

export interface ServeOptions extends ProtocolOptions {
  /** Aborted when the client leaves. A push that has arrived completely is still executed. */
  readonly signal?: AbortSignal | undefined;
  /** Called once per push, before any object is read. Nothing moves unless it accepts. */
  readonly onRefUpdates?:
    | ((updates: readonly RefUpdate[], pushOptions: readonly string[]) => Promise<PushVerdict>)
    | undefined;
  /**
   * Called once the objects of a push have arrived and are valid, right before refs move. A refusal refuses the whole
   * push. If the hub dies before the answer, nothing moves. After the answer, refs move even if the hub dies.
   */
  readonly onReceived?: ((objects: NewObjects) => Promise<readonly RefRefusal[]>) | undefined;
  /** The maximum size of the pack of a push. */
  readonly maxInputBytes?: number | undefined;
  /** Stops if no byte moves in either direction for this long. */
  readonly idleTimeoutMs?: number | undefined;
}

export interface ServeResult {
  /** The refs that actually moved, in the order of the push. Always empty for a fetch. */
  readonly updates: readonly RefUpdate[];
  readonly refused: readonly RefRefusal[];
  /** True for a fetch that sent objects, not only the names of refs. */
  readonly sentObjects?: boolean;
}

export interface Served {
  /** The body of the response (`application/x-<service>-result`, status 200). Must be consumed. */
  readonly stream: Readable;
  /** Settles when git has ended, even if the client is gone. Record the push from here. */
  readonly done: Promise<ServeResult>;
  /** True for a push whose client shows messages. */
  readonly hasSideBand?: boolean;
}

export interface FetchBundleOptions extends CallOptions {
  readonly maxInputBytes?: number | undefined;
  /** The maximum number of files and folders of a branch or tag; 0 means unlimited. */
  readonly maxFiles?: number | undefined;
  /** Replaces a repository with content. Otherwise the path must have no repository or an empty one. */
  readonly replace?: boolean | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

export interface FetchedBundle {
  readonly branches: number;
  readonly tags: number;
  /** Branches and tags of the bundle that were left out because of their names. */
  readonly skipped: readonly string[];
  /** Refs outside `refs/heads/` and `refs/tags/`. They are not created, but their objects exist. */
  readonly others: readonly { readonly name: string; readonly oid: string }[];
  /** The branch that the bundle's HEAD names, also set as the repository's HEAD. Null if it is unknown. */
  readonly defaultBranch: string | null;
}

/** A commit and its repository. */
export interface PlacedCommit {
  readonly path: string;
  readonly oid: string;
}

export interface MergeCommit {
  readonly message: string;
  readonly author: Identity;
  readonly committer: Identity;
}

export type MergedCommit = { readonly oid: string } | { readonly failed: 'conflict' };

export interface CopyOptions extends CallOptions {
  readonly branch?: string | null | undefined;
  /** The branch that HEAD names, if no single branch is copied. */
  readonly defaultBranch: string;
}

/** The access to a repository on another server. */
export interface Remote {
  /** Returns the response to `GET /info/refs?service=git-upload-pack`. */
  advertisement(): Promise<Readable>;
  /** Returns the response to `POST /git-upload-pack`. */
  request(body: Buffer): Promise<Readable>;
}

export interface CloneOptions extends CallOptions {
  /** The maximum size of the pack; 0 means unlimited. */
  readonly maxInputBytes?: number | undefined;
  /** The maximum number of files and folders of a branch or tag; 0 means unlimited. */
  readonly maxFiles?: number | undefined;
  /** Stops if the server sends nothing for this long. */
  readonly idleTimeoutMs?: number | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}
