import type { Readable } from 'node:stream';
import type { CallOptions } from './call-options.ts';

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

export interface Identity {
  readonly name: string;
  readonly email: string;
  readonly date: Date;
}

/** What a new commit says, apart from its files. */
export interface CommitText {
  readonly message: string;
  readonly author: Identity;
  readonly committer: Identity;
}

export interface TagObject {
  readonly id: string;
  readonly message: string;
  /** ISO 8601 with the offset of the tagger. Null if the tag has no tagger. */
  readonly tagged_date: string | null;
  readonly is_signed: boolean;
}

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

export interface FoundObject {
  readonly oid: string;
  readonly type: string;
  readonly size: number;
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

/** A commit and its repository. */
export interface PlacedCommit {
  readonly path: string;
  readonly oid: string;
}
