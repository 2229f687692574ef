import type { Readable } from 'node:stream';
import { defineCache } from '#platform/cache.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { PageRequest } from '#platform/paging.ts';
import type { Storage } from '#platform/storage/storage.ts';
import type { FoundArtifact } from './queries.ts';
import { isUsablePath, readDirectory } from './zip/directory.ts';
import { isDirectory, problemOf, type ZipEntry, ZipProblem } from './zip/entry.ts';
import { type Blocks, buildIndex, findInBlock, listTree, type ReadPart, type TreeItem } from './zip/index-file.ts';
import { isSmall, openFile, unpackSmall } from './zip/read-file.ts';

/** The index of an archive, or why it has none. */
export interface ArchiveIndex {
  readonly key: string | null;
  readonly blocks: Blocks | null;
  readonly entries: number | null;
  readonly problem: string | null;
}

const MAX_PROBLEM = 500;

/**
 * Reads the directory of a stored zip and stores its index under `key`. An archive that cannot be read is kept as it
 * is: it can be downloaded whole, but no file of it.
 */
export const indexArchive = async (
  ctx: Context,
  { key: storageKey, size }: { readonly key: string; readonly size: number },
  key: string,
): Promise<ArchiveIndex> => {
  const { storage } = ctx.services;
  let entries: ZipEntry[];
  try {
    entries = await readDirectory({
      size,
      read: (start, length) => storage.readPart(storageKey, { start, end: start + length - 1 }),
    });
  } catch (error) {
    if (!(error instanceof ZipProblem)) throw error;
    return { key: null, blocks: null, entries: null, problem: storable(error.message).slice(0, MAX_PROBLEM) };
  }
  const { content, blocks } = await buildIndex(entries);
  if (entries.length > 0) await storage.write(key, content, { signal: ctx.signal });
  return { key: entries.length > 0 ? key : null, blocks, entries: entries.length, problem: null };
};

const storable = (text: string): string => text.toWellFormed().replaceAll('\0', '');

/** A file of an archive, to be sent. */
export interface ArchiveFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
  /** The CRC-32 of the content. */
  readonly crc: number;
  open(): Promise<Readable | Buffer>;
}

/**
 * Returns a file of an archive that was found together with its path. Reads a block of the index here, and the file
 * itself in `open`.
 *
 * @throws DomainError `bad_request` for an invalid path, an archive that cannot be read, and an entry that is no plain
 *   file; `not_found` if there is no such file, or the archive has expired
 */
export const getArchiveFile = async (ctx: Context, archive: FoundArtifact, path: string): Promise<ArchiveFile> => {
  checkPath(path);
  const entry = await findEntry(ctx, archive, path);
  if (!entry || isDirectory(entry)) throw notFound();
  const problem = problemOf(entry);
  if (problem !== null) throw badRequest(`${path} ${problem}`);
  return {
    path,
    size: entry.size,
    crc: entry.crc,
    open: () =>
      openEntry(ctx.services.storage, archive.storage_key, entry).catch((error: unknown) => {
        throw error instanceof ZipProblem ? badRequest(`${path} ${error.message}`) : error;
      }),
  };
};

const openEntry = async (storage: Storage, key: string, entry: ZipEntry): Promise<Readable | Buffer> => {
  const range = { start: entry.offset, end: entry.offset + entry.span - 1 };
  if (isSmall(entry)) return unpackSmall(entry, await storage.readPart(key, range));
  return openFile(entry, (await storage.read(key, range)).stream);
};

/**
 * Returns a page of what is in a directory of the archive, `''` for its root (`listTree`).
 *
 * @throws DomainError as `getArchiveFile`, `not_found` (Path) if there is no such directory
 */
export const pageOfTree = async (
  ctx: Context,
  archive: FoundArtifact,
  { path, recursive }: { readonly path: string; readonly recursive: boolean },
  page: PageRequest,
): Promise<{ items: TreeItem[]; hasNext: boolean }> => {
  if (path !== '') checkPath(path);
  const index = await openIndex(ctx, archive);
  const directory = path === '' || path.endsWith('/') ? path : `${path}/`;
  const offset = page.kind === 'offset' ? page.offset : 0;
  const items: TreeItem[] = [];
  let found = 0;
  for await (const item of index ? listTree(index.blocks, index.read, directory, recursive) : []) {
    ctx.signal.throwIfAborted();
    found += 1;
    if (found <= offset) continue;
    if (items.length === page.limit) return { items, hasNext: true };
    items.push(item);
  }
  if (found === 0 && path !== '') throw notFound('Path');
  return { items, hasNext: false };
};

const checkPath = (path: string): void => {
  if (!isUsablePath(path)) throw badRequest('the path is invalid: it must be relative, without empty segments or ..');
};

/** Returns the entry of a path, or null. */
const findEntry = async (ctx: Context, archive: FoundArtifact, path: string): Promise<ZipEntry | null> => {
  const key = indexKeyOf(archive);
  const { block_start: start, block_end: end } = archive;
  if (key === null || start === null || end === null) return null;
  const known = knownBlocks(ctx.services);
  const place = `${key} ${start}`;
  let block = known.get(place);
  if (!block) {
    block = await readerOf(ctx.services.storage, key)(start, end);
    known.set(place, block);
  }
  return findInBlock(block, path);
};

const MAX_KNOWN_BYTES = 8 * 1024 * 1024;

/**
 * The blocks that files were found in, by index and offset. Pages of reports load many files that are near each other.
 * A stored index never changes, and the row of the artifact is read each time.
 */
const knownBlocks = defineCache<string, Buffer>({
  name: 'blocks of artifact indexes',
  limit: MAX_KNOWN_BYTES,
  weightOf: ({ length }) => length + 300,
});

/** Null if the archive is empty. */
const openIndex = async (
  ctx: Context,
  archive: FoundArtifact,
): Promise<{ readonly blocks: Blocks; readonly read: ReadPart } | null> => {
  const key = indexKeyOf(archive);
  if (key === null) return null;
  const row = await ctx.db
    .selectFrom('job_artifacts')
    .select(['index_paths', 'index_offsets'])
    .where('id', '=', archive.id)
    .executeTakeFirst();
  if (!row) throw notFound();
  const blocks = { paths: row.index_paths ?? [], offsets: row.index_offsets ?? [] };
  return { blocks, read: readerOf(ctx.services.storage, key) };
};

/**
 * Returns the key of the index, or null if the archive is empty.
 *
 * @throws DomainError `not_found` if the archive has expired, `bad_request` if it cannot be read
 */
const indexKeyOf = ({ expired, index_key, index_problem }: FoundArtifact): string | null => {
  if (expired) throw notFound();
  if (index_problem !== null) throw badRequest(`the archive cannot be read: ${index_problem}`);
  return index_key;
};

const readerOf =
  (storage: Storage, key: string): ReadPart =>
  (start, end) =>
    storage.readPart(key, { start, end: end - 1 });
