import type { Readable } from 'node:stream';
import type { CallOptions, RevisionRange, TreeEntry } from './types.ts';

/** Reads of the content of a repository, beyond single objects. Part of `Git` (types.ts). */
export interface GitReading {
  /**
   * Returns the bytes of a blob of at most `maxBytes`, or null if there is no such blob. @throws GitError `too_large`
   */
  readBytes(path: string, oid: string, maxBytes: number, options?: CallOptions): Promise<Buffer | null>;
  /** Streams the bytes of an existing blob. The reader must take them at once. */
  bytesOf(path: string, oid: string, options?: CallOptions): AsyncGenerator<Buffer>;
  /** Returns the kind and size of an object by its full or abbreviated (7 or more) id, or null. */
  findObject(path: string, id: string): Promise<FoundObject | null>;
  /** Returns the root tree of a commit, or null. */
  treeOf(path: string, commitOid: string): Promise<string | null>;
  /** Returns the entries at several paths of a commit or tree. Leaves out paths without an entry. */
  findFiles(path: string, treeish: string, filePaths: readonly string[]): Promise<ReadonlyMap<string, TreeEntry>>;
  /**
   * Yields the entries of a tree, or of the root of a commit: first folders, then files, then submodules, each in git's
   * order. Does not read sizes.
   */
  walkTree(path: string, treeish: string, options?: WalkOptions): AsyncGenerator<TreeEntry>;

  /** Returns the changes from one commit to another. A null `from` means the empty tree. */
  diff(path: string, from: string | null, to: string, options?: DiffOptions): Promise<Diff>;
  /**
   * Yields the path of each file that differs between two commits, without limit. A renamed file has both of its paths.
   * A null `from` means the empty tree.
   */
  changedPaths(path: string, from: string | null, to: string, options?: CallOptions): AsyncGenerator<string>;
  /**
   * Returns a digest of the changes from one commit to another that does not depend on where in their files they are,
   * like `git patch-id --verbatim`. Null if nothing differs.
   */
  patchId(path: string, from: string | null, to: string, options?: CallOptions): Promise<string | null>;
  /**
   * Streams the changes from one commit to another as text in the format of git. Occupies a process, and ends when the
   * reader takes nothing for a minute.
   */
  diffText(path: string, from: string, to: string, options?: CallOptions): Readable;
  /** Returns the new paths of the files that were renamed from one commit to another, by their old paths. */
  renames(path: string, from: string | null, to: string, options?: CallOptions): Promise<ReadonlyMap<string, string>>;
  /** Returns the lines added and removed by each commit relative to its first parent, in one pass. */
  commitStats(path: string, oids: readonly string[], options?: CallOptions): Promise<ReadonlyMap<string, CommitStats>>;
  /**
   * Returns the commit that last changed each line of a file, as runs of lines of one commit. Empty for a range after
   * the end of the file.
   */
  blame(path: string, commitOid: string, filePath: string, options?: BlameOptions): Promise<BlamedLines[]>;
  /** Returns the newest commit that changed the path, in the history up to `commitOid`, or null. */
  lastCommitOf(path: string, commitOid: string, filePath: string, options?: CallOptions): Promise<string | null>;

  /** Returns the best common ancestor of two or more commits, or null. */
  mergeBase(path: string, oids: readonly string[], options?: ForeignOptions & CallOptions): Promise<string | null>;
  /** Returns the full names of the branches, or tags, that contain a commit. */
  refsContaining(
    path: string,
    oid: string,
    prefix: 'refs/heads/' | 'refs/tags/',
    options?: CallOptions,
  ): Promise<string[]>;
  /** Returns the authors of the commits without merges: each name and address once, with its number of commits. */
  authors(path: string, range: Pick<RevisionRange, 'from'> & CallOptions): Promise<Author[]>;
  /** Returns the kind of signature of a commit without verifying it, or null if there is none. */
  signatureOf(path: string, oid: string): Promise<SignatureKind | null>;

  /** Returns the archive formats available on this machine. */
  archiveFormats(): readonly ArchiveFormat[];
  /** Streams an archive of a commit, or of one of its folders or files. Does not check that the path exists. */
  archive(path: string, options: ArchiveOptions): Readable;
}

export interface FoundObject {
  readonly oid: string;
  readonly type: string;
  readonly size: number;
}

export interface WalkOptions extends CallOptions {
  readonly recursive?: boolean | undefined;
  /** Prepended to the path of each entry. */
  readonly prefix?: string | undefined;
}

/** Lets git also find the objects of another repository. */
export interface ForeignOptions {
  readonly withObjectsOf?: string | undefined;
}

export interface DiffOptions extends ForeignOptions, CallOptions {
  /** Selects a part of the files. Patches outside of it are skipped. */
  readonly skip?: number | undefined;
  readonly limit?: number | undefined;
  /** The maximum number of files to list, by default 10,000. */
  readonly maxFiles?: number | undefined;
  /** The maximum number of lines in total, by default 50,000. Patches beyond it are collapsed. */
  readonly maxLines?: number | undefined;
  /** The maximum number of bytes of a patch, by default 200 KiB. A longer patch is too large. */
  readonly maxPatchBytes?: number | undefined;
  /** Only these files and folders. A rename is found if both paths are among them. */
  readonly paths?: readonly string[] | undefined;
  /** The number of unchanged lines around each change, by default 3. */
  readonly context?: number | undefined;
}

export interface Diff {
  readonly files: readonly DiffFile[];
  /** The number of files that differ, at most `maxFiles`. */
  readonly total: number;
  /** True if something was left out. */
  readonly overflow: boolean;
}

/** A file that differs. The modes are git's (`100644`), or `0` if there is no file on that side. */
export interface DiffFile {
  readonly old_path: string;
  readonly new_path: string;
  readonly a_mode: string;
  readonly b_mode: string;
  readonly new_file: boolean;
  readonly renamed_file: boolean;
  readonly deleted_file: boolean;
  /** The patch from the first `@@` on, or `Binary files ... differ` for a binary file. */
  readonly diff: string;
  /** The two lines before the patch that name the files. */
  readonly header: string;
  /** Left out because the whole diff became too large. */
  readonly collapsed: boolean;
  /** Left out because this patch is too large. */
  readonly too_large: boolean;
}

export interface CommitStats {
  readonly additions: number;
  readonly deletions: number;
  readonly total: number;
}

export interface BlameOptions extends CallOptions {
  /** Line numbers from 1, both inclusive. */
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
  /** The folder in the archive that contains everything, ending with a slash. */
  readonly prefix: string;
  readonly folder?: string | undefined;
}
