import type { Readable } from 'node:stream';
import type { CallOptions, ForeignOptions } from './call-options.ts';
import type { Blob, FileEntry, FoundObject, NewObjects, TagObject, TreeEntry } from './objects.ts';

/** Reads of objects, trees and the differences between them. Part of `Git` (types.ts). */
export interface GitReading {
  /** Occupies a process while the blob is read. Ends when the reader takes nothing for `idleTimeoutMs`. */
  readBlob(path: string, oid: string, options?: ReadBlobOptions): Promise<Blob | null>;
  /**
   * Returns the bytes of a blob of at most `maxBytes`, or null if there is no such blob. @throws GitError `too_large`
   */
  readBytes(path: string, oid: string, maxBytes: number, options?: CallOptions): Promise<Buffer | null>;
  /** Streams the bytes of an existing blob. The reader must take them at once. */
  bytesOf(path: string, oid: string, options?: CallOptions): AsyncGenerator<Buffer>;
  /** Returns the first bytes of a small blob through a process that stays open, or null if there is no such blob. */
  readBeginning(path: string, oid: string, bytes: number): Promise<Buffer | null>;
  /** Returns the kind and size of an object by its full or abbreviated (7 or more) id, or null. */
  findObject(path: string, id: string): Promise<FoundObject | null>;
  /** Returns the annotated tags among the ids, in the given order. */
  readTagObjects(path: string, oids: readonly string[]): Promise<TagObject[]>;
  /**
   * Returns the objects that commits of the repository add and no ref reaches, usually none. For a push see
   * `onReceived`.
   */
  newObjects(path: string): NewObjects;

  /** Returns the root tree of a commit, or null. */
  treeOf(path: string, commitOid: string): Promise<string | null>;
  /** Returns the entry at a path of a commit or tree, or null. */
  findFile(path: string, treeish: string, filePath: string): Promise<TreeEntry | null>;
  /** Returns the entries at several paths of a commit or tree. Leaves out paths without an entry. */
  findFiles(path: string, treeish: string, filePaths: readonly string[]): Promise<ReadonlyMap<string, TreeEntry>>;
  /**
   * Yields the entries of a tree, or of the root of a commit: first folders, then files, then submodules, each in git's
   * order. Does not read sizes.
   */
  walkTree(path: string, treeish: string, options?: WalkOptions): AsyncGenerator<TreeEntry>;
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

  /** Returns the archive formats available on this machine. */
  archiveFormats(): readonly ArchiveFormat[];
  /** Streams an archive of a commit, or of one of its folders or files. Does not check that the path exists. */
  archive(path: string, options: ArchiveOptions): Readable;
}

export interface ReadBlobOptions extends CallOptions {
  readonly idleTimeoutMs?: number | undefined;
}

export interface WalkOptions extends CallOptions {
  readonly recursive?: boolean | undefined;
  /** Prepended to the path of each entry. */
  readonly prefix?: string | undefined;
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

export type ArchiveFormat = 'zip' | 'tar.gz' | 'tar.bz2' | 'tar';

export interface ArchiveOptions extends CallOptions {
  readonly commit: string;
  readonly format: ArchiveFormat;
  /** The folder in the archive that contains everything, ending with a slash. */
  readonly prefix: string;
  readonly folder?: string | undefined;
}
