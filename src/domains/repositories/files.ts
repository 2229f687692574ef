import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, DomainError, notFound } from '#platform/errors.ts';
import type { FoundObject, TreeEntry } from '#platform/git/objects.ts';
import type { Commit, RepositoryProject } from './model.ts';
import { requireRevision, resolveRevision } from './queries/revisions.ts';

/** Larger content is not held in memory. It is only available as a stream from `raw`, without a checksum. */
const MAX_WHOLE_BYTES = 20 * 1024 * 1024;
const MAX_BLAMED_BYTES = 5 * 1024 * 1024;
/** Smaller content is held in memory, even for slow readers. */
const MAX_HELD_BYTES = 1024 * 1024;
/**
 * Readers who take nothing for this long are disconnected, because each reader of a large file occupies a git process.
 */
const READER_IDLE_MS = 60_000;

/** A file at one commit, without its content. */
export interface RepositoryFile {
  readonly path: string;
  readonly name: string;
  readonly mode: string;
  readonly blob_id: string;
  readonly size: number;
  /** The revision as requested. */
  readonly ref: string;
  readonly commit_id: string;
  readonly last_commit_id: string;
}

/** @throws DomainError `not_found` (Commit) without such a revision, (File) without a file at the path */
export const getFile = async (
  ctx: Context,
  project: RepositoryProject,
  ref: string,
  path: string,
): Promise<RepositoryFile> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const commit = await requireRevision(ctx, project, ref, 'Commit');
  const entry = await git.findFile(project.disk_path, commit, path);
  if (entry?.type !== 'blob') throw notFound('File');
  const last = await git.lastCommitOf(project.disk_path, commit, path, { signal: ctx.signal });
  return {
    path,
    name: path.slice(path.lastIndexOf('/') + 1),
    mode: entry.mode,
    blob_id: entry.oid,
    size: entry.size ?? 0,
    ref,
    commit_id: commit,
    last_commit_id: last ?? commit,
  };
};

export const isExecutable = ({ mode }: Pick<RepositoryFile, 'mode'>): boolean => mode === '100755';

/** @throws DomainError `too_large` beyond `MAX_WHOLE_BYTES`, with a hint how to get the file */
export const readWhole = async (
  ctx: Context,
  project: RepositoryProject,
  { oid, size }: Pick<FoundObject, 'oid' | 'size'>,
): Promise<Buffer> => {
  if (size > MAX_WHOLE_BYTES) {
    throw new DomainError('too_large', 'The file is too large to be sent as JSON: get it from its raw address');
  }
  const content = await ctx.services.git.readBytes(project.disk_path, oid, MAX_WHOLE_BYTES, { signal: ctx.signal });
  if (content === null) throw notFound('File');
  return content;
};

export const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex');

/** Returns the checksum of a file, or null if the file is too large. */
export const checksumOf = async (
  ctx: Context,
  project: RepositoryProject,
  { blob_id, size }: Pick<RepositoryFile, 'blob_id' | 'size'>,
): Promise<string | null> => {
  if (size > MAX_WHOLE_BYTES) return null;
  const { git } = ctx.services;
  if (size <= MAX_HELD_BYTES) {
    const content = await git.readBytes(project.disk_path, blob_id, MAX_HELD_BYTES);
    if (content === null) throw notFound('File');
    return sha256(content);
  }
  const hash = createHash('sha256');
  for await (const chunk of git.bytesOf(project.disk_path, blob_id, { signal: ctx.signal })) hash.update(chunk);
  return hash.digest('hex');
};

/**
 * Streams the content, or the part between two bytes, both included.
 *
 * @throws DomainError `too_many_requests` or `unavailable` if the caller, or all callers together, read too many large
 * files
 */
export const openBlob = async (
  ctx: Context,
  project: RepositoryProject,
  { oid, size }: Pick<FoundObject, 'oid' | 'size'>,
  part: BytesWanted = { start: 0, end: size - 1 },
): Promise<Readable> => {
  const { git } = ctx.services;
  if (size <= MAX_HELD_BYTES) {
    const content = await git.readBytes(project.disk_path, oid, MAX_HELD_BYTES);
    if (content === null) throw notFound('File');
    return Readable.from([content.subarray(part.start, part.end + 1)], { objectMode: false });
  }
  const blob = await git.readBlob(project.disk_path, oid, { signal: ctx.signal, idleTimeoutMs: READER_IDLE_MS });
  if (blob === null) throw notFound('File');
  return blobPart(blob.stream, size, part);
};

const blobPart = (whole: Readable, size: number, part: BytesWanted): Readable =>
  part.start === 0 && part.end === size - 1 ? whole : partOf(whole, part);

interface BytesWanted {
  readonly start: number;
  readonly end: number;
}

/** Skips the bytes before the part, because git always sends a file from its start. */
const partOf = (whole: Readable, { start, end }: BytesWanted): Readable => {
  const part = Readable.from(
    (async function* () {
      let at = 0;
      for await (const chunk of whole) {
        const bytes: Buffer = chunk;
        const wanted = bytes.subarray(Math.max(0, start - at), Math.max(0, end + 1 - at));
        if (wanted.length > 0) yield wanted;
        at += bytes.length;
        if (at > end) return;
      }
    })(),
    { objectMode: false },
  );
  // A reader that leaves before the first read never enters the generator.
  part.once('close', () => whole.destroy());
  return part;
};

const POINTER = 'version https://git-lfs.github.com/spec/v1';
const MAX_POINTER_BYTES = 1024;

/** Returns whether the file is a git LFS pointer. The hub stores no LFS files. */
export const isLfsPointer = async (
  ctx: Context,
  project: RepositoryProject,
  { oid, size }: Pick<FoundObject, 'oid' | 'size'>,
): Promise<boolean> =>
  size <= MAX_POINTER_BYTES &&
  ((await ctx.services.git.readBytes(project.disk_path, oid, MAX_POINTER_BYTES))
    ?.toString('latin1')
    .startsWith(POINTER) ??
    false);

/** Returns a blob by its full or abbreviated id. @throws DomainError `not_found` (Blob) */
export const getBlob = async (ctx: Context, project: RepositoryProject, id: string): Promise<FoundObject> => {
  requireAbility(ctx, project, 'read_code');
  const found = await ctx.services.git.findObject(project.disk_path, id);
  if (found?.type !== 'blob') throw notFound('Blob');
  return found;
};

export interface BlamedPart {
  readonly commit: Commit;
  readonly lines: readonly string[];
}

/**
 * Returns who last changed the lines of the file. Lines count from 1; the range includes both ends.
 *
 * @throws DomainError `bad_request`, `too_large`
 */
export const blameOf = async (
  ctx: Context,
  project: RepositoryProject,
  file: RepositoryFile,
  range: { readonly start: number; readonly end: number } | undefined,
): Promise<BlamedPart[]> => {
  if (range && range.start > range.end) throw badRequest('range[start] must be less than or equal to range[end]');
  if (file.size > MAX_BLAMED_BYTES) throw new DomainError('too_large', 'The file is too large to be blamed');
  const { git } = ctx.services;
  const parts = await git.blame(project.disk_path, file.commit_id, file.path, { range, signal: ctx.signal });
  const commits = await git.readCommits(project.disk_path, [...new Set(parts.map(({ oid }) => oid))]);
  const byId = new Map(commits.map((commit) => [commit.id, commit]));
  return parts.flatMap(({ oid, lines }) => {
    const commit = byId.get(oid);
    return commit ? [{ commit, lines }] : [];
  });
};

export interface BlobEntry extends TreeEntry {
  readonly size: number;
}

/**
 * Returns the files at several paths of one commit, in one pass. Leaves out paths without a file. Empty without such a
 * revision.
 */
export const blobsAt = async (
  ctx: Context,
  project: RepositoryProject,
  ref: string | undefined,
  paths: readonly string[],
): Promise<BlobEntry[]> => {
  requireAbility(ctx, project, 'read_code');
  const commit = await resolveRevision(ctx, project, ref);
  if (commit === null) return [];
  const found = await ctx.services.git.findFiles(project.disk_path, commit, paths);
  return paths.flatMap((path) => {
    const entry = found.get(path);
    return entry?.type === 'blob' ? [{ ...entry, size: entry.size ?? 0 }] : [];
  });
};

/** Returns the text of a blob. Null if it is large or not text. */
export const textOf = async (
  ctx: Context,
  project: RepositoryProject,
  { oid, size }: Pick<FoundObject, 'oid' | 'size'>,
): Promise<string | null> => {
  if (size > MAX_HELD_BYTES) return null;
  const content = await ctx.services.git.readBytes(project.disk_path, oid, MAX_HELD_BYTES);
  return content === null || content.subarray(0, BINARY_PROBE_BYTES).includes(0) ? null : content.toString('utf8');
};

/** Like git, treats content as binary if it has a NUL in its first bytes. */
const BINARY_PROBE_BYTES = 8_000;
