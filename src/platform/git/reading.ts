import type { Readable } from 'node:stream';
import type { CallOptions, RevisionRange, TreeEntry } from './types.ts';

/** What a repository can be asked about its content, beyond single objects: part of `Git` (types.ts). */
export interface GitReading {
  /** The bytes of a blob of at most `maxBytes`; null when there is no such blob. Throws `too_large`. */
  readBytes(path: string, oid: string, maxBytes: number, options?: CallOptions): Promise<Buffer | null>;
  /** The bytes of a blob that is there, for a reader that takes them at once. */
  bytesOf(path: string, oid: string, options?: CallOptions): AsyncGenerator<Buffer>;
  /** Kind and size of an object by its full or abbreviated (7 or more) id, or null. */
  findObject(path: string, id: string): Promise<FoundObject | null>;
  /** The root tree of a commit, or null. */
  treeOf(path: string, commitOid: string): Promise<string | null>;
  /** The entries at several paths of a commit or tree; paths without one are left out. */
  findFiles(path: string, treeish: string, filePaths: readonly string[]): Promise<ReadonlyMap<string, TreeEntry>>;
  /** The entries of a tree, or of the root of a commit: first folders, then files, then submodules, each in the order of git. Sizes are not read. */
  walkTree(path: string, treeish: string, options?: WalkOptions): AsyncGenerator<TreeEntry>;

  /** What changed from one commit to another, or since nothing (null). */
  diff(path: string, from: string | null, to: string, options?: DiffOptions): Promise<Diff>;
  /** Lines added and removed against the first parent, of each commit, in one pass. */
  commitStats(path: string, oids: readonly string[], options?: CallOptions): Promise<ReadonlyMap<string, CommitStats>>;
  /** Who last changed each line of a file, as runs of lines of one commit. Nothing for a range behind its end. */
  blame(path: string, commitOid: string, filePath: string, options?: BlameOptions): Promise<BlamedLines[]>;
  /** The newest commit that changed the path, of one and what came before it; or null. */
  lastCommitOf(path: string, commitOid: string, filePath: string, options?: CallOptions): Promise<string | null>;

  /** The best common ancestor of two or more commits, or null. */
  mergeBase(path: string, oids: readonly string[], options?: ForeignOptions & CallOptions): Promise<string | null>;
  /** Full names of the branches, or tags, that a commit is contained in. */
  refsContaining(
    path: string,
    oid: string,
    prefix: 'refs/heads/' | 'refs/tags/',
    options?: CallOptions,
  ): Promise<string[]>;
  /** Authors of the commits other than merges, each name and address once, with the number of their commits. */
  authors(path: string, range: Pick<RevisionRange, 'from'> & CallOptions): Promise<Author[]>;
  /** The kind of signature that a commit carries, of whomever; null for none. */
  signatureOf(path: string, oid: string): Promise<SignatureKind | null>;

  /** The formats that can be made on this machine. */
  archiveFormats(): readonly ArchiveFormat[];
  /** The files of a commit, or of one folder or file of it, packed. Does not check that there is such a path. */
  archive(path: string, options: ArchiveOptions): Readable;
}

export interface FoundObject {
  readonly oid: string;
  readonly type: string;
  readonly size: number;
}

export interface WalkOptions extends CallOptions {
  readonly recursive?: boolean | undefined;
  /** Put before the path of each entry. */
  readonly prefix?: string | undefined;
}

/** Lets objects of another repository be found as well. */
export interface ForeignOptions {
  readonly withObjectsOf?: string | undefined;
}

export interface DiffOptions extends ForeignOptions, CallOptions {
  /** A part of the files; patches outside of it are read over. */
  readonly skip?: number | undefined;
  readonly limit?: number | undefined;
  /** What differs in more files is told of in part; 10,000 unless it says otherwise. */
  readonly maxFiles?: number | undefined;
  /** Patches that bring the answer beyond so many lines are collapsed; 50,000 unless it says otherwise. */
  readonly maxLines?: number | undefined;
  /** A patch of more bytes is too large; 200 KiB unless it says otherwise. */
  readonly maxPatchBytes?: number | undefined;
}

export interface Diff {
  readonly files: readonly DiffFile[];
  /** Of all files that differ, at most `maxFiles`. */
  readonly total: number;
  /** Something was left out. */
  readonly overflow: boolean;
}

/** A file that differs. Its modes are those of git (`100644`), `0` where there is no file. */
export interface DiffFile {
  readonly old_path: string;
  readonly new_path: string;
  readonly a_mode: string;
  readonly b_mode: string;
  readonly new_file: boolean;
  readonly renamed_file: boolean;
  readonly deleted_file: boolean;
  /** From the first `@@` on; `Binary files ... differ` where it is no text. */
  readonly diff: string;
  /** The two lines before it that name the files. */
  readonly header: string;
  /** Left out because the whole became too large. */
  readonly collapsed: boolean;
  /** Left out because it alone is. */
  readonly too_large: boolean;
}

export interface CommitStats {
  readonly additions: number;
  readonly deletions: number;
  readonly total: number;
}

export interface BlameOptions extends CallOptions {
  /** Lines from 1, both included. */
  readonly range?: { readonly start: number; readonly end: number } | undefined;
}

export interface BlamedLines {
  readonly oid: string;
  readonly lines: readonly string[];
}

export interface Author {
  readonly name: string;
  readonly email: string;
  readonly commits: number;
}

export type SignatureKind = 'PGP' | 'SSH' | 'X509';
export type ArchiveFormat = 'zip' | 'tar.gz' | 'tar.bz2' | 'tar';

export interface ArchiveOptions extends CallOptions {
  readonly commit: string;
  readonly format: ArchiveFormat;
  /** The folder in the archive that everything lies in, with a slash at its end. */
  readonly prefix: string;
  readonly folder?: string | undefined;
}
