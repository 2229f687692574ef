import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Settings } from '#domains/settings/registry.ts';
import { ArchiveLimitError } from '#platform/archive/archive-error.ts';
import { type ArchiveEntry, readArchive } from '#platform/archive/read-archive.ts';
import { parseArchiveJson } from '#platform/archive/safe-json.ts';
import { type Spool, spool } from '#platform/archive/spool.ts';
import type { Context } from '#platform/context.ts';
import { isObject } from '#platform/values/json.ts';
import { MIB } from '#platform/values/units.ts';
import { isTaken } from '../archive-files.ts';
import { ARCHIVE_VERSION, TransferError } from '../model.ts';
import type { Json } from '../relations/columns.ts';
import { LineScan } from './line-scan.ts';

export interface RelationFile {
  readonly spool: Spool;
  /** The last line counts even without a line break, as in the reader. */
  readonly lines: number;
  /** The highest number of its items. 0 if none has a number that it can keep. */
  readonly highestIid: number;
}

/**
 * An unpacked archive whose files can be read in any order. They have no names on the disk, so a crash leaves none
 * behind.
 */
export interface Unpacked {
  readonly project: Json;
  readonly relations: ReadonlyMap<string, RelationFile>;
  readonly bundle: Spool | null;
  /** The total size of the files that are read. */
  readonly bytes: number;
  /** The parts of the archive that the import leaves out. */
  readonly leftOut: readonly LeftOut[];
  close(): Promise<void>;
}

interface Wanted {
  /** Whether to keep the repository. */
  readonly bundle: boolean;
  /** Takes the files that `isTaken` names. Returns why one is left out, or null. Without it they are left out. */
  readonly onFile?: (entry: ArchiveEntry) => Promise<string | null>;
}

/** A part of the archive that is left out. */
export interface LeftOut {
  readonly name: string;
  readonly exception_class: 'RelationUnknown' | 'RecordInvalid';
  /** A sentence. */
  readonly reason: string;
}

const unknownPart = (name: string, items: number): LeftOut => ({
  name,
  exception_class: 'RelationUnknown',
  reason: `This hub does not know ${name}: ${items} ${items === 1 ? 'item was' : 'items were'} left out`,
});

/** The names of everybody in the archive, which the members repeat. */
const IGNORED = new Set(['user_contributions']);
/** They say where the archive comes from. */
const IGNORED_FILES = new Set(['GITLAB_VERSION', 'GITLAB_REVISION', 'project.bundle']);
const MAX_UNKNOWN = 50;
const MAX_ENTRIES = 200_000;
const MAX_PROJECT_BYTES = 4 * MIB;
const RELATION = /^tree\/project\/([a-z_]{1,64})\.ndjson$/;
export const MAX_DEPTH = 64;

/**
 * Reads the whole archive once, so that a damaged one is refused before anything is written. `storageKeys` are its parts.
 *
 * @throws ArchiveError, TransferError if it is not an export that this hub can read
 */
export const unpack = async (
  ctx: Context,
  storageKeys: readonly string[],
  settings: Settings,
  known: ReadonlySet<string>,
  wanted: Wanted = { bundle: true },
): Promise<Unpacked> => {
  const unpacking = new Unpacking(join(ctx.services.config.dataDir, 'tmp'), known, wanted);
  try {
    await readArchive(Readable.from(readAll(ctx, storageKeys), { objectMode: false }), {
      maxBytes: unlimited(settings.max_decompressed_archive_size * MIB),
      maxEntries: MAX_ENTRIES,
      timeoutMs: unlimited(settings.decompress_archive_file_timeout * 1_000),
      signal: ctx.signal,
      onEntry: (entry) => unpacking.take(entry),
    });
    return unpacking.result();
  } catch (error) {
    await unpacking.close();
    throw error instanceof ArchiveLimitError
      ? new TransferError(`${error.message.replace(/\.$/, '')} (${LIMITS[error.limit]}).`)
      : error;
  }
};

/** The parts of an archive that were read so far. */
class Unpacking {
  readonly #directory: string;
  readonly #known: ReadonlySet<string>;
  readonly #wanted: Wanted;
  readonly #opened: Spool[] = [];
  readonly #relations = new Map<string, RelationFile>();
  readonly #leftOut: LeftOut[] = [];
  /** By folder, or by name if it is in none: the number of files that nothing here reads. */
  readonly #otherFiles = new Map<string, number>();
  #version: string | null = null;
  #project: Json | null = null;
  #bundle: Spool | null = null;
  #isOld = false;

  constructor(directory: string, known: ReadonlySet<string>, wanted: Wanted) {
    this.#directory = directory;
    this.#known = known;
    this.#wanted = wanted;
  }

  async take(entry: ArchiveEntry): Promise<void> {
    const { name, size, stream } = entry;
    const relation = RELATION.exec(name)?.[1];
    if (name === 'VERSION') this.#version = (await small(stream, size, 1_024)).toString('utf8').trim();
    else if (name === 'tree/project.json') this.#project = readProject(await small(stream, size, MAX_PROJECT_BYTES));
    else if (name === 'project.json') this.#isOld = true;
    else if (name === 'project.bundle' && this.#wanted.bundle) this.#bundle = await this.#keep(stream);
    else if (relation !== undefined && this.#known.has(relation)) await this.#keepRelation(relation, stream);
    else if (isTaken(name)) await this.#takeFile(entry);
    else if (relation !== undefined) await this.#leaveOutRelation(relation, stream);
    else if (!IGNORED_FILES.has(name)) this.#countOther(name);
  }

  /** @throws TransferError if the archive is not a whole export of a version that this hub can read */
  result(): Unpacked {
    checkVersion(this.#version);
    if (this.#project === null) {
      throw new TransferError(
        this.#isOld
          ? 'The archive has the layout of releases before 13.0 (one project.json), which cannot be imported.'
          : 'The archive has no project: tree/project.json is missing.',
      );
    }
    return {
      project: this.#project,
      relations: this.#relations,
      bundle: this.#bundle,
      bytes: this.#opened.reduce((sum, { size }) => sum + size, 0),
      leftOut: [...this.#leftOut, ...[...this.#otherFiles].map(([name, items]) => unknownPart(name, items))],
      close: () => this.close(),
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.splice(0).map((each) => each.close()));
  }

  async #keep(source: AsyncIterable<Buffer>): Promise<Spool> {
    const kept = await spool(source, this.#directory);
    this.#opened.push(kept);
    return kept;
  }

  async #keepRelation(relation: string, stream: AsyncIterable<Buffer>): Promise<void> {
    const scan = new LineScan();
    const kept = await this.#keep(scan.through(stream));
    this.#relations.set(relation, { spool: kept, lines: scan.lines, highestIid: scan.highestIid });
  }

  async #leaveOutRelation(relation: string, stream: AsyncIterable<Buffer>): Promise<void> {
    if (IGNORED.has(relation) || this.#leftOut.length >= MAX_UNKNOWN) return;
    const scan = new LineScan();
    for await (const _chunk of scan.through(stream));
    if (scan.lines > 0) this.#leftOut.push(unknownPart(relation, scan.lines));
  }

  async #takeFile(entry: ArchiveEntry): Promise<void> {
    const problem = (await this.#wanted.onFile?.(entry)) ?? null;
    if (problem === null || this.#leftOut.length >= MAX_UNKNOWN) return;
    const part = entry.name.slice(0, entry.name.indexOf('/'));
    const reason = `The ${part} ${problem}: it was left out`;
    this.#leftOut.push({ name: part, exception_class: 'RecordInvalid', reason });
  }

  #countOther(name: string): void {
    const [folder = name] = name.split('/', 1);
    const shown = folder.slice(0, 100).toWellFormed();
    const count = this.#otherFiles.get(shown);
    if (count !== undefined || this.#otherFiles.size < MAX_UNKNOWN) this.#otherFiles.set(shown, (count ?? 0) + 1);
  }
}

/** Reads the parts of the archive one after the other. */
async function* readAll(ctx: Context, storageKeys: readonly string[]): AsyncGenerator<Buffer> {
  for (const key of storageKeys) yield* (await ctx.services.storage.read(key)).stream;
}

/** The settings behind the limits. */
const LIMITS = {
  bytes: 'max_decompressed_archive_size',
  time: 'decompress_archive_file_timeout',
} as const;

const unlimited = (limit: number): number => (limit === 0 ? Number.POSITIVE_INFINITY : limit);

const small = async (stream: AsyncIterable<Buffer>, size: number, max: number): Promise<Buffer> => {
  if (size > max) throw new TransferError('The archive is not an export: one of its header files is too large.');
  return buffer(stream);
};

const readProject = (bytes: Buffer): Json => {
  const parsed = parseArchiveJson(bytes, { maxDepth: MAX_DEPTH });
  if ('error' in parsed) throw new TransferError(`The project in the archive ${parsed.error}.`);
  if (!isObject(parsed.value)) throw new TransferError('The project in the archive is not an object.');
  return parsed.value;
};

/** Accepts the patch releases of this format, up to the one that this hub writes. */
const checkVersion = (version: string | null): void => {
  if (version === null) throw new TransferError('The archive is not an export: VERSION is missing.');
  const parts = /^(\d{1,4})\.(\d{1,4})\.(\d{1,4})$/.exec(version);
  const own = ARCHIVE_VERSION.split('.').map(Number);
  const given = parts?.slice(1).map(Number) ?? [];
  const fits = given[0] === own[0] && given[1] === own[1] && (given[2] ?? 0) <= (own[2] ?? 0);
  if (parts && fits) return;
  const shown = version.slice(0, 20).replace(/[^\w.-]/g, '?');
  throw new TransferError(`Import version mismatch: required ${ARCHIVE_VERSION} but was ${shown}.`);
};
