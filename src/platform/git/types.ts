import type { Readable } from 'node:stream';

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
  readonly trailers: Readonly<Record<string, string>>;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

export interface ListRefsOptions extends CallOptions {
  /** A full prefix that ends with a slash, such as `refs/heads/`. */
  readonly prefix: string;
  readonly limit?: number | undefined;
  /** Only refs that sort after this full name (byte order). */
  readonly after?: string | undefined;
  /** Given the name without `prefix`. */
  readonly match?: ((shortName: string) => boolean) | undefined;
}

export interface RefChange {
  /** Full name: `refs/heads/...`, `refs/tags/...`, `refs/merge-requests/...`, `refs/keep-around/...`. */
  readonly ref: string;
  /** What the ref must hold now: null means it must not exist, absent means whatever it holds. */
  readonly oldOid?: string | null | undefined;
  /** Null deletes the ref. */
  readonly newOid: string | null;
}

export interface RevisionRange {
  /** A full object id or a full ref name; what users type goes through `resolveCommit` first. */
  readonly from: string;
  /** Commits reachable from these are left out. */
  readonly not?: readonly string[] | undefined;
  readonly path?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
  /** A fixed text, found in the author's name or email whatever its case. */
  readonly author?: string | undefined;
  readonly firstParent?: boolean | undefined;
}

export interface ListCommitsOptions extends RevisionRange, CallOptions {
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
  readonly action: 'create' | 'update' | 'delete';
  readonly path: string;
  /** Needed for `create` and `update`. */
  readonly content?: Buffer | string | undefined;
  /** Kept on update when absent; `100644` on create. */
  readonly mode?: '100644' | '100755' | '120000' | undefined;
}

export interface FilesCommit {
  readonly branch: string;
  /** The commit the branch must be at; null when the branch must not exist yet. */
  readonly parent: string | null;
  readonly message: string;
  readonly author: Identity;
  readonly committer: Identity;
  readonly files: readonly FileChange[];
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
  readonly onRefUpdates?: ((updates: readonly RefUpdate[]) => Promise<PushVerdict>) | undefined;
  /** Largest pack accepted in a push. */
  readonly maxInputBytes?: number | undefined;
  /** Gives up when no byte moved either way for so long. */
  readonly idleTimeoutMs?: number | undefined;
}

export interface ServeResult {
  /** The refs that really moved, in the order of the push; always empty for a fetch. */
  readonly updates: readonly RefUpdate[];
  readonly refused: readonly RefRefusal[];
}

export interface Served {
  /** The body of the answer (`application/x-<service>-result`, status 200). Must be consumed. */
  readonly stream: Readable;
  /** Settles when git has ended, also when the client is gone: record the push from here. */
  readonly done: Promise<ServeResult>;
}

export interface FetchBundleOptions extends CallOptions {
  readonly maxInputBytes?: number | undefined;
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
