import type { Readable } from 'node:stream';
import type { ForeignOptions, GitReading } from './reading.ts';

/**
 * Everything the hub does with repositories. They are bare and named by a storage path relative to the root,
 * such as `@hashed/ab/cd/42.git`. All functions throw `GitError` (git-error.ts), whose message is fit for users.
 */
export interface Git extends GitReading {
  /** Fails unless the git binary is 2.38 or later; resolves to its version. */
  requireVersion(): Promise<string>;

  /** Creates an empty bare repository whose HEAD names `defaultBranch`; leaves one that is there already as it is. */
  init(path: string, defaultBranch: string): Promise<void>;
  /** Removes the repository and what an interrupted import left beside it; nothing there is fine. */
  remove(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** Whether the storage is that of `owner`: the first to ask has it from then on. */
  claim(owner: string): Promise<boolean>;
  /** The paths of all repositories in a folder of the storage such as `@hashed/ab`, also of those in the making. */
  stored(folder: string): Promise<string[]>;
  /** When the folder of the repository last changed; null when there is none. */
  changedAt(path: string): Promise<Date | null>;
  /** True without any branch or tag. */
  isEmpty(path: string): Promise<boolean>;
  /** The branch HEAD names, born or not, without `refs/heads/`; null when HEAD names no branch. */
  head(path: string): Promise<string | null>;
  setHead(path: string, branch: string): Promise<void>;
  /** Bytes of its objects on disk. */
  diskSize(path: string): Promise<number>;
  /** Packs objects and refs and drops what has been unreachable for two weeks. */
  gc(path: string, options?: CallOptions): Promise<void>;

  /** Refs below a prefix in byte order of their names, unless `order` says otherwise. */
  listRefs(path: string, options: ListRefsOptions): Promise<Ref[]>;
  /** What refs hold, by their full names (the tag object of an annotated tag); those that do not exist are absent. */
  refValues(path: string, names: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** What a full ref name holds (the tag object of an annotated tag), or null. */
  resolve(path: string, ref: string): Promise<string | null>;
  /** The commit behind what a user typed: a branch, else a tag, else a full or abbreviated (7 or more) commit id; null for anything else. */
  resolveCommit(path: string, revision: string): Promise<string | null>;
  /** The commit that steps back from another lead to, or null where history is too short for them. */
  commitBefore(path: string, oid: string, steps: readonly RevisionStep[]): Promise<string | null>;
  /** Moves all refs or none. Throws `conflict` when one does not hold its `oldOid` or clashes with another name. */
  updateRefs(path: string, changes: readonly RefChange[]): Promise<void>;
  /** Those of the commits, tips of branches, that are contained in the commit `targetOid`: one process for all, none for what was asked before. */
  containedIn(path: string, targetOid: string, oids: readonly string[]): Promise<ReadonlySet<string>>;
  isAncestor(path: string, ancestorOid: string, descendantOid: string): Promise<boolean>;

  /** The commits in the order asked for; ids that are no commit here are left out. */
  readCommits(path: string, oids: readonly string[]): Promise<Commit[]>;
  /** Holds a process for as long as it is read: a reader that takes nothing for `idleTimeoutMs` is given up. */
  readBlob(path: string, oid: string, options?: ReadBlobOptions): Promise<Blob | null>;
  /** The entry at a path of a commit or tree, or null. */
  findFile(path: string, treeish: string, filePath: string): Promise<TreeEntry | null>;
  /** Every file of a commit with its size, as git lists them; a reader that has enough may leave. */
  allFiles(path: string, treeish: string, options?: CallOptions): AsyncGenerator<FileEntry>;
  /** What `.gitattributes` files say of paths, by path and name: `set`, `unset` or the value. What they leave open is absent. */
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
  /** The first bytes of a small blob, through a process that stays open; null when there is none. */
  readBeginning(path: string, oid: string, bytes: number): Promise<Buffer | null>;
  listCommits(path: string, options: ListCommitsOptions): Promise<Commit[]>;
  countCommits(path: string, range: RevisionRange & CallOptions): Promise<number>;
  /** What a push brought to a branch: everything since `oldOid`, or for a created branch what no other branch holds. */
  newCommits(path: string, newOid: string, oldOid: string | null, options?: NewCommitsOptions): Promise<NewCommits>;
  /**
   * Paths each commit touched against its first parent, at most 5,000 for each commit. Of commits that touch hundreds of
   * thousands, and those behind them, fewer or none.
   */
  changedFiles(path: string, oids: readonly string[]): Promise<ReadonlyMap<string, ChangedFiles>>;
  /** What commits of the repository bring that none of its refs reaches: nothing, mostly. For a push see `onReceived`. */
  newObjects(path: string): NewObjects;
  /**
   * Makes a commit of changed files, all or none, without a work tree; resolves to its id. No ref moves: until one does,
   * nobody sees it. Throws `invalid` for a bad path and for a file that should or should not be there.
   */
  createCommit(path: string, commit: FilesCommit, options?: CreateCommitOptions): Promise<string>;
  /** The same, to a branch. Throws `conflict` when the branch is not at `parent`. */
  commitFiles(path: string, commit: FilesCommit & { readonly branch: string }): Promise<string>;
  /** Makes a commit of what `changed` has against `base`, on top of `onto`; no ref moves. */
  applyChange(path: string, change: ChangeToApply, judge?: Judge): Promise<AppliedChange>;
  /** Makes the object of an annotated tag; no ref moves. */
  createTagObject(path: string, tag: NewTagObject, judge?: Judge): Promise<string>;
  /** The annotated tags among the ids, in the order asked for. */
  readTagObjects(path: string, oids: readonly string[]): Promise<TagObject[]>;

  /** The body of `GET /info/refs?service=...` (`application/x-<service>-advertisement`). */
  advertise(path: string, service: Service, options?: ProtocolOptions & CallOptions): Promise<Readable>;
  /**
   * Answers `POST /<service>`. `body` is already decompressed (`decodedBody`). Rejects with `invalid` for a malformed
   * request (nothing has been sent then); resolves once a push's commands are read and judged.
   */
  serve(path: string, service: Service, body: Readable, options?: ServeOptions): Promise<Served>;

  /** A bundle of HEAD, branches, tags, merge request and keep-around refs; null when there are none. */
  createBundle(path: string, options?: CallOptions): Promise<Readable | null>;
  /** Makes a fresh repository from a bundle (a stream or a file), all or nothing. Throws `invalid` for a broken bundle. */
  fetchBundle(path: string, bundle: Readable | string, options?: FetchBundleOptions): Promise<FetchedBundle>;

  /**
   * Makes `to` a copy of the branches and tags of `from`, or of one branch alone, all or nothing; what stood at `to` goes.
   * The objects are files of their own or second names of the same: neither depends on the other. Throws `missing`
   * without that branch.
   */
  copyRepository(from: string, to: string, options: CopyOptions): Promise<{ readonly branches: number }>;
  /** How many commits each of two commits, of two repositories, has that the other has not. */
  divergence(own: PlacedCommit, other: PlacedCommit): Promise<{ readonly ahead: number; readonly behind: number }>;
  /**
   * Brings what a commit of another repository has to a commit of this one: the other commit itself where this one is part
   * of it, this one where nothing is new, else a merge of both. Objects are copied; no ref moves. `conflict` also for
   * commits that have none in common.
   */
  mergeForeign(own: PlacedCommit, other: PlacedCommit, merge: MergeCommit, judge?: Judge): Promise<MergedCommit>;
  /** Whether `mergeForeign` would find no conflict. */
  mergesCleanly(own: PlacedCommit, other: PlacedCommit): Promise<boolean>;
  /** Makes `path` a clone of branches and tags that another server has, all or nothing. Throws `invalid` for what cannot be a repository here. */
  cloneRemote(path: string, remote: Remote, options?: CloneOptions): Promise<FetchedBundle>;

  /** Ends the helper processes that are kept open. */
  close(): Promise<void>;
}

/** A ref with its full name. For an annotated tag `oid` is the tag object and `peeledOid` what it points at. */
export interface Ref {
  readonly name: string;
  readonly oid: string;
  readonly peeledOid: string;
  /** The message of an annotated tag; null for everything else. */
  readonly message: string | null;
}

/** A commit in the names of spec 1 §2.4; the faces add `created_at` and `web_url`. */
export interface Commit {
  readonly id: string;
  readonly short_id: string;
  readonly parent_ids: readonly string[];
  readonly title: string;
  readonly message: string;
  readonly author_name: string;
  readonly author_email: string;
  /** ISO 8601 in the offset of its author, such as `2024-01-31T10:00:00.000+02:00`. */
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
   * `updated_*`: by the time of the commit; `created_*`: by that of an annotated tag, else of the commit. Those of one
   * moment by name. `version_*`: by name, digits as numbers.
   */
  readonly order?: 'name' | `${'updated' | 'created' | 'version'}_${'asc' | 'desc'}` | undefined;
  readonly limit?: number | undefined;
  /** Only refs that sort after this full name (byte order). */
  readonly after?: string | undefined;
  /** Given the name without `prefix`. */
  readonly match?: ((shortName: string) => boolean) | undefined;
}

/** From a commit to one before it: its parent number so and so, or so many generations along first parents. */
export type RevisionStep = { readonly parent: number } | { readonly generations: number };

export interface RefChange {
  /** Full name: `refs/heads/...`, `refs/tags/...`, `refs/merge-requests/...`, `refs/keep-around/...`. */
  readonly ref: string;
  /** What the ref must hold now: null means it must not exist, absent means whatever it holds. */
  readonly oldOid?: string | null | undefined;
  /** Null deletes the ref. */
  readonly newOid: string | null;
}

export interface RevisionRange {
  /** Full object ids or full ref names; what users type goes through `resolveCommit` first. */
  readonly from: string | readonly string[];
  /** From every branch and tag as well. */
  readonly all?: boolean | undefined;
  /** Commits reachable from these are left out. */
  readonly not?: readonly string[] | undefined;
  readonly path?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  /** A fixed text, found in the author's name or email whatever its case. */
  readonly author?: string | undefined;
  readonly firstParent?: boolean | undefined;
  /** No commit before its children, and lines of history one after the other; by time otherwise. */
  readonly topological?: boolean | undefined;
}

export interface ListCommitsOptions extends RevisionRange, ForeignOptions, CallOptions {
  readonly limit: number;
  readonly skip?: number | undefined;
}

export interface NewCommits {
  /** Newest first, at most `limit`. */
  readonly commits: readonly Commit[];
  readonly total: number;
}

export interface NewCommitsOptions extends CallOptions {
  readonly limit?: number | undefined;
  /** For a created branch: the refs this push moved, which do not count as having had the commits before. */
  readonly excludeRefs?: readonly string[] | undefined;
}

/**
 * What the tips (ids of commits or tags) bring that no ref of the repository reaches yet, as streams that take the same
 * memory for much as for little. They fail with `timeout` when the time is over.
 */
export interface NewObjects {
  commits(tips: readonly string[], options?: CallOptions): AsyncIterable<NewCommit>;
  /** The files that the commits add; a renamed one is added under its new name. */
  files(tips: readonly string[], options?: CallOptions): AsyncIterable<NewFile>;
  /** Blobs of more bytes than that which the repository did not hold before. */
  blobsOver(tips: readonly string[], bytes: number, options?: CallOptions): AsyncIterable<NewBlob>;
  /** The first of the tips that the commit is contained in, or null. */
  holderOf(tips: readonly string[], oid: string, options?: CallOptions): Promise<string | null>;
  /** The first of the tips (a hundred are looked at) that holds more files and folders than that, or null. */
  tipBeyond(tips: readonly string[], atMost: number, options?: Pick<CallOptions, 'signal'>): Promise<string | null>;
  /** The oldest commit that brings the object, or null. */
  commitWith(tips: readonly string[], oid: string, options?: CallOptions): Promise<string | null>;
}

export interface NewCommit extends Commit {
  /** Carries a signature, of whomever. */
  readonly isSigned: boolean;
  /** False for a commit of more than 1 MiB, of which nothing but the id is told. */
  readonly isWhole: boolean;
}

export interface NewFile {
  readonly commit: string;
  readonly path: string;
}

export interface NewBlob {
  readonly oid: string;
  readonly size: number;
  /** One of its paths; empty for what a tag names. */
  readonly path: string;
}

export interface ChangedFiles {
  readonly added: readonly string[];
  readonly modified: readonly string[];
  readonly removed: readonly string[];
}

export interface TreeEntry {
  readonly mode: string;
  readonly type: 'blob' | 'tree' | 'commit';
  readonly oid: string;
  /** Bytes of a blob; null for anything else. */
  readonly size: number | null;
  /** Path from the root of the tree. */
  readonly path: string;
}

/** A file, a link or an executable of a tree, by its path from the root. */
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

export interface FileChange {
  readonly action: 'create' | 'update' | 'delete' | 'move' | 'chmod';
  readonly path: string;
  /** Of `move`: where the file is now. */
  readonly previousPath?: string | undefined;
  /** Needed for `create` and `update`; a file that is moved may get another. */
  readonly content?: Buffer | string | undefined;
  /** Kept when absent; `100644` on create. */
  readonly mode?: '100644' | '100755' | '120000' | undefined;
}

export interface FilesCommit {
  /** Null for a commit that begins a history. */
  readonly parent: string | null;
  readonly message: string;
  readonly author: Identity;
  readonly committer: Identity;
  /** Carried out one after the other. */
  readonly files: readonly FileChange[];
}

/** Looks at a new commit or tag while the repository does not hold it yet; when it throws, it never will. */
export type Judge = (oid: string, objects: NewObjects) => Promise<void>;

export interface CreateCommitOptions {
  readonly judge?: Judge | undefined;
  /** Another repository that has the parent: what is missing is copied from there. */
  readonly from?: string | undefined;
}

export interface ChangeToApply {
  /** Commits, or null for no file at all. */
  readonly base: string | null;
  readonly changed: string | null;
  readonly onto: string;
  readonly message: string;
  readonly author: Identity;
  readonly committer: Identity;
}

/** `conflict`: both sides changed the same lines. `empty`: nothing would change. */
export type AppliedChange = { readonly oid: string } | { readonly failed: 'conflict' | 'empty' };

export interface NewTagObject {
  readonly name: string;
  readonly commit: string;
  readonly message: string;
  readonly tagger: Identity;
}

export interface TagObject {
  readonly id: string;
  readonly message: string;
  /** ISO 8601 in the offset of the tagger; null where the tag does not tell. */
  readonly tagged_date: string | null;
  readonly is_signed: boolean;
}

export type Service = 'git-upload-pack' | 'git-receive-pack';

export interface ProtocolOptions {
  /** The `Git-Protocol` header as it came; anything that is not a known version is ignored. */
  readonly gitProtocol?: string | undefined;
}

/** A ref update as a push asks for it: null for "does not exist" on either side. */
export interface RefUpdate {
  readonly ref: string;
  readonly oldOid: string | null;
  readonly newOid: string | null;
}

export interface RefRefusal {
  readonly ref: string;
  /** One line, shown to the person who pushed. */
  readonly reason: string;
}

export interface PushVerdict {
  /** One refusal refuses the whole push. */
  readonly refused?: readonly RefRefusal[] | undefined;
  /** Full refs that may only move forward: refused as a whole once the objects are here and say otherwise. */
  readonly fastForwardOnly?: readonly string[] | undefined;
  /** Lines for the terminal of the person who pushed, whatever the outcome. */
  readonly messages?: readonly string[] | undefined;
}

export interface ServeOptions extends ProtocolOptions {
  /** Aborted when the client went away. A push that has arrived whole is still carried out. */
  readonly signal?: AbortSignal | undefined;
  /** Asked once for a push, before any object is read; nothing moves unless it agrees. */
  readonly onRefUpdates?:
    | ((updates: readonly RefUpdate[], pushOptions: readonly string[]) => Promise<PushVerdict>)
    | undefined;
  /**
   * Asked once the objects of a push are here and found sound, right before refs move; what it refuses, refuses the
   * push as a whole. When the hub dies before the answer, nothing moves; after it, refs move whether it lives or not.
   */
  readonly onReceived?: ((objects: NewObjects) => Promise<readonly RefRefusal[]>) | undefined;
  /** Largest pack accepted in a push. */
  readonly maxInputBytes?: number | undefined;
  /** Gives up when no byte moved either way for so long. */
  readonly idleTimeoutMs?: number | undefined;
}

export interface ServeResult {
  /** The refs that really moved, in the order of the push; always empty for a fetch. */
  readonly updates: readonly RefUpdate[];
  readonly refused: readonly RefRefusal[];
  /** A fetch that objects were sent for, not only the names of refs. */
  readonly sentObjects?: boolean;
}

export interface Served {
  /** The body of the answer (`application/x-<service>-result`, status 200). Must be consumed. */
  readonly stream: Readable;
  /** Settles when git has ended, also when the client is gone: record the push from here. */
  readonly done: Promise<ServeResult>;
}

export interface FetchBundleOptions extends CallOptions {
  readonly maxInputBytes?: number | undefined;
  /** Most files and folders of a branch or tag; 0 is unlimited. */
  readonly maxFiles?: number | undefined;
  /** Replaces a repository with content; otherwise only an absent or empty one may stand at the path. */
  readonly replace?: boolean | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

export interface FetchedBundle {
  readonly branches: number;
  readonly tags: number;
  /** Branches and tags of the bundle left out because of their names. */
  readonly skipped: readonly string[];
  /** Refs outside `refs/heads/` and `refs/tags/`: not created, though their objects are here. */
  readonly others: readonly { readonly name: string; readonly oid: string }[];
  /** The branch the bundle's HEAD stands for, also set as the repository's HEAD; null when nothing tells. */
  readonly defaultBranch: string | null;
}

/** A commit, and the repository that it is in. */
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
  /** What HEAD names where not one branch alone is copied. */
  readonly defaultBranch: string;
}

/** How a repository on another server is reached. */
export interface Remote {
  /** The answer to `GET /info/refs?service=git-upload-pack`. */
  advertisement(): Promise<Readable>;
  /** The answer to `POST /git-upload-pack`. */
  request(body: Buffer): Promise<Readable>;
}

export interface CloneOptions extends CallOptions {
  /** Largest pack; 0 is unlimited. */
  readonly maxInputBytes?: number | undefined;
  /** Most files and folders of a branch or tag; 0 is unlimited. */
  readonly maxFiles?: number | undefined;
  /** Gives up when the server sent nothing for so long. */
  readonly idleTimeoutMs?: number | undefined;
  readonly onProgress?: ((bytes: number) => void) | undefined;
}
