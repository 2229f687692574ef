import { sql } from 'kysely';
import pg from 'pg';
import { type Line, readLineBatches } from '#platform/archive/ndjson.ts';
import type { Context, Tx } from '#platform/context.ts';
import { isObject } from '#platform/values/json.ts';
import { RELATIONS } from '../relations/all.ts';
import { type Json, Refused } from '../relations/columns.ts';
import { insertRows } from '../relations/insert-rows.ts';
import type { ImportLine, Relation } from '../relations/relation.ts';
import { type Failure, ImportBatch, type ImportPlace, ITEM } from './batch.ts';
import type { Checkpoint } from './checkpoint.ts';
import type { ImportPeople } from './people.ts';
import { findPeople } from './people.ts';
import { placeNow } from './place.ts';
import { type ImportStats, kindOfRelation, NO_STATS } from './stats.ts';
import { UnknownKeys } from './unknown-keys.ts';
import { MAX_DEPTH, type RelationFile, type Unpacked } from './unpack.ts';

const MAX_LINE_BYTES = 32 * 1024 * 1024;
/** Few enough that the young generation holds the lines that are written and those that are read meanwhile. */
const BATCH = 500;
const LINES = { maxLineBytes: MAX_LINE_BYTES, maxDepth: MAX_DEPTH, batchSize: BATCH };

/** Imports every relation of the archive, each from where an earlier attempt stopped. */
export const importRelations = async (
  ctx: Context,
  archive: Unpacked,
  place: ImportPlace,
  people: ImportPeople,
  checkpoint: Checkpoint,
): Promise<void> => {
  for (const relation of RELATIONS) {
    const file = archive.relations.get(relation.name);
    if (file) await importRelation(ctx, relation, file, place, people, checkpoint);
  }
};

/** Remembers which lines are finished. */
export interface LineProgress {
  doneLines(relation: string): number;
  /** Runs `write` and records in the same transaction that `done` lines of the relation are finished. */
  lines(relation: string, done: number, bytes: number, write: (tx: Tx) => Promise<ImportStats>): Promise<void>;
}

/** Imports one relation from where an earlier attempt stopped. `choose` may leave out lines. */
export const importRelation = async (
  ctx: Context,
  relation: Relation,
  file: RelationFile,
  place: ImportPlace,
  people: ImportPeople,
  checkpoint: LineProgress,
  choose: (tx: Tx, lines: readonly ImportLine[]) => Promise<readonly ImportLine[]> = async (_tx, lines) => lines,
): Promise<void> => {
  const { name } = relation;
  const unknownKeys = new UnknownKeys(place.project_id, relation);
  const write = async (lines: readonly Line[]): Promise<void> => {
    const done = (lines.at(-1)?.index ?? -1) + 1;
    const bytes = lines.reduce((sum, line) => sum + line.bytes, 0);
    let unknown: readonly Failure[] = [];
    try {
      if (relation.prepare) {
        const batch = new ImportBatch(ctx.db, place, people);
        await relation.prepare(batch, readableLines(batch, lines));
      }
      await checkpoint.lines(name, done, bytes, async (tx) => {
        const batch = new ImportBatch(tx.db, await placeNow(tx, place), people);
        const readable = await choose(tx, readableLines(batch, lines));
        const unreadable = batch.failures.length;
        if (readable.length > 0) await relation.write(batch, readable);
        unknown = await unknownKeys.find(tx, readable);
        await recordFailures(tx, place.project_id, name, [...batch.failures, ...unknown]);
        const kind = kindOfRelation(name);
        if (kind !== null) {
          const failed = batch.failures.filter(({ source }) => source === ITEM).length;
          batch.counter.fetched(kind, lines.length);
          batch.counter.imported(kind, readable.length + unreadable - failed - batch.skipped);
        }
        return batch.counter.stats;
      });
      unknownKeys.saved(unknown);
    } catch (error) {
      if (!isOfTheData(error)) throw error;
      if (lines.length > 1) {
        // At least one line cannot be saved. Split the batch to find it.
        const middle = lines.length >> 1;
        await write(lines.slice(0, middle));
        await write(lines.slice(middle));
        return;
      }
      ctx.log.debug({ err: error, relation: name, line: lines[0]?.index }, 'an item could not be imported');
      await checkpoint.lines(name, done, bytes, async (tx) => {
        await recordFailures(tx, place.project_id, name, [
          {
            exception_class: 'StatementInvalid',
            exception_message: describe(error),
            source: ITEM,
            line_number: lines[0]?.index ?? 0,
          },
        ]);
        const kind = kindOfRelation(name);
        return kind === null ? NO_STATS : { fetched: { [kind]: 1 }, imported: {} };
      });
    }
  };
  const options = { ...LINES, fromIndex: checkpoint.doneLines(name) };
  for await (const batch of oneAhead(readLineBatches(file.spool.chunks(), options))) {
    ctx.signal.throwIfAborted();
    await write(batch);
  }
  // Blank lines at the end are never written, but they count as done.
  if (checkpoint.doneLines(name) < file.lines) await checkpoint.lines(name, file.lines, 0, async () => NO_STATS);
};

/** Reads and parses the next batch while the database writes this one. */
async function* oneAhead<T>(source: AsyncGenerator<T>): AsyncGenerator<T> {
  let next = source.next();
  try {
    for (let step = await next; !step.done; step = await next) {
      next = source.next();
      // If the write fails, nothing awaits this promise any more.
      next.catch(() => undefined);
      yield step.value;
    }
  } finally {
    await next.catch(() => undefined);
    await source.return(undefined);
  }
}

const readableLines = (batch: ImportBatch, lines: readonly Line[]): ImportLine[] => {
  const readable: ImportLine[] = [];
  for (const line of lines) {
    if (line.error === undefined && isObject(line.value)) readable.push({ index: line.index, value: line.value });
    else {
      const problem = line.error ?? 'is not an object';
      batch.fail({ index: line.index, value: {} }, new Refused(`The line ${problem}`));
    }
  }
  return readable;
};

const FAILURE_TYPES = {
  project_id: 'bigint',
  relation_name: 'text',
  exception_class: 'text',
  exception_message: 'text',
  source: 'text',
  line_number: 'integer',
};

/** Saves the failures, and counts them for the import that created the project. */
export const recordFailures = async (
  tx: Tx,
  projectId: number,
  relation: string,
  failures: readonly Failure[],
): Promise<void> => {
  if (failures.length === 0) return;
  const rows = failures.map((failure) => ({ ...failure, project_id: projectId, relation_name: relation }));
  await insertRows(tx.db, 'import_failures', FAILURE_TYPES, rows);
  await tx.db
    .updateTable('project_imports')
    .set({ failures: sql`failures + ${failures.length}` })
    .where('project_id', '=', projectId)
    .execute();
};

/** Returns whether the data caused the failure, not the database or the hub. */
const isOfTheData = (error: unknown): boolean => {
  if (error instanceof Refused || error instanceof TypeError || error instanceof RangeError) return true;
  const code = error instanceof pg.DatabaseError ? (error.code ?? '') : '';
  return /^(?:22|23|54)/.test(code);
};

/** Describes the error without the statement and its values. */
const describe = (error: unknown): string => {
  if (error instanceof Refused) return error.message.slice(0, 1_000);
  const code = error instanceof pg.DatabaseError ? error.code : '';
  if (code === '23505') return 'The item already exists';
  if (code?.startsWith('23')) return 'The item refers to something that does not exist, or lacks a required value';
  if (code?.startsWith('54')) return 'The item is too large';
  return 'The item has a value that cannot be saved';
};

/** Matches the people in the member lines with users here. Does not make them members. */
export const readPeople = async (ctx: Context, archive: Unpacked): Promise<ReadonlyMap<number, number>> => {
  const known = new Map<number, number>();
  const file = archive.relations.get('project_members');
  if (!file) return known;
  for await (const batch of readLineBatches(file.spool.chunks(), LINES)) {
    const lines: Json[] = [];
    for (const { value } of batch) if (isObject(value)) lines.push(value);
    await findPeople(ctx, lines, known);
  }
  return known;
};

/** Returns the only line of a setting file, or null if it is missing or cannot be read. */
export const readSettingsLine = async (file: RelationFile | undefined): Promise<Json | null> => {
  if (!file) return null;
  for await (const [line] of readLineBatches(file.spool.chunks(), { ...LINES, batchSize: 1 })) {
    return line && isObject(line.value) ? line.value : null;
  }
  return null;
};
