import { sql } from 'kysely';
import { approvalSettingsToArchive } from '#domains/approvals/archive.ts';
import { errorTrackingToArchive } from '#domains/error-tracking/archive.ts';
import { attributesToArchive } from '#domains/projects/archive.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { pushRuleToArchive } from '#domains/push-rules/archive.ts';
import { writeLines } from '#platform/archive/ndjson.ts';
import type { ArchiveWriter } from '#platform/archive/write-archive.ts';
import type { Context } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import { notePassed } from '#platform/process/collect.ts';
import { VERSION } from '#platform/process/version.ts';
import { writeFiles } from '../archive-files.ts';
import { ARCHIVE_VERSION, type RelationCounts } from '../model.ts';
import { RELATIONS, SETTING_FILES } from '../relations/all.ts';
import type { ChildReading, ExportReader, Relation } from '../relations/relation.ts';

/** Lines per query. Starts small, then adapts so that a page has about `PAGE_CHARACTERS`. */
const FIRST_PAGE = 100;
const MAX_PAGE = 1_000;
const PAGE_CHARACTERS = 1024 * 1024;

export interface WriteOptions {
  readonly reader: ExportReader;
  /** Replaces the project's own description. */
  readonly description: string | null;
  /** Called after each page, with the relation and its lines so far. */
  readonly onLines: (relation: string, done: number) => Promise<void>;
  readonly onBundle: (bytes: number) => Promise<void>;
}

const relationsFor = ({ isAdministrator }: ExportReader): readonly Relation[] =>
  RELATIONS.filter((relation) => isAdministrator || !relation.forAdministrators);

/** Returns the number of lines of each relation. */
export const countRelations = async (
  db: Database,
  projectId: number,
  reader: ExportReader,
): Promise<RelationCounts> => {
  const counts: Record<string, { done: number; total: number }> = {};
  for (const { name, reading } of relationsFor(reader)) {
    const { rows } = await reading.count(projectId, reader).execute(db);
    counts[name] = { done: 0, total: rows[0]?.count ?? 0 };
  }
  return counts;
};

/**
 * Writes the project into the archive: first the database content, then the repository. `db` is a transaction with a
 * snapshot of one moment.
 */
export const writeProject = async (
  ctx: Context,
  db: Database,
  project: ProjectRow,
  archive: ArchiveWriter,
  options: WriteOptions,
): Promise<void> => {
  await archive.entry('VERSION', `${ARCHIVE_VERSION}\n`);
  await archive.entry('GITLAB_VERSION', `${VERSION}\n`);
  await archive.entry('GITLAB_REVISION', 'millrace\n');
  // A bundle only holds the commit of HEAD, which may be that of several branches.
  const { default_branch } = project;
  const attributes = attributesToArchive(project, 'project');
  if (options.description !== null) attributes.description = options.description;
  const approvals = await approvalSettingsToArchive({ db }, project.id);
  await archive.entry(
    'tree/project.json',
    JSON.stringify({ ...attributes, ...approvals, default_branch, import_type: 'gitlab_project' }),
  );
  for (const file of SETTING_FILES) {
    await archive.entry(`tree/project/${file}.ndjson`, `${JSON.stringify(attributesToArchive(project, file))}\n`);
  }
  const rule = await pushRuleToArchive({ db }, project.id);
  if (rule) await archive.entry('tree/project/push_rule.ndjson', `${JSON.stringify(rule)}\n`);
  const errorTracking = await errorTrackingToArchive({ db }, project.id);
  await archive.entry('tree/project/error_tracking_setting.ndjson', `${JSON.stringify(errorTracking)}\n`);
  for (const relation of relationsFor(options.reader)) {
    await archive.entry(
      `tree/project/${relation.name}.ndjson`,
      writeLines(readLines(ctx, db, project.id, relation, options)),
    );
  }
  await writeFiles(ctx, db, project, archive);
  const bundle = await ctx.services.git.createBundle(project.disk_path, { signal: ctx.signal });
  if (bundle) await archive.entry('project.bundle', counted(bundle, options.onBundle));
};

/**
 * Yields the lines of a relation page by page: the JSON that Postgres built for each row, with its children inserted.
 *
 * A cursor gives the ids, so Postgres finds and sorts the rows of the project only once. A page after an id would do
 * that for each page while the statistics of the table are stale, as they are after an import.
 */
async function* readLines(
  ctx: Context,
  db: Database,
  projectId: number,
  { name, reading }: Relation,
  { reader, onLines }: WriteOptions,
): AsyncGenerator<string[]> {
  const children = await presentChildren(db, projectId, reading.children);
  let limit = FIRST_PAGE;
  let done = 0;
  const readPage = async () => {
    const { rows } = await sql<{ id: number }>`fetch ${sql.lit(limit)} from parents`.execute(db);
    return rows.length === 0 ? [] : (await reading.page(rows.map(({ id }) => id)).execute(db)).rows;
  };
  await sql`declare parents no scroll cursor for ${reading.ids(projectId, reader)}`.execute(db);
  for (let page = await readPage(); page.length > 0; ) {
    ctx.signal.throwIfAborted();
    const found = await readChildren(
      db,
      children,
      page.map(({ id }) => id),
    );
    const lines = page.map(({ id, line }) => withChildren(line, id, found));
    limit = nextLimit(limit, lines);
    // Read the next page while this one is written.
    const next = readPage();
    next.catch(() => undefined);
    yield lines;
    done += page.length;
    await onLines(name, done);
    page = await next;
  }
  await sql`close parents`.execute(db);
}

const nextLimit = (limit: number, lines: readonly string[]): number => {
  const characters = lines.reduce((sum, line) => sum + line.length, 0);
  notePassed(characters);
  const fitting = Math.floor((PAGE_CHARACTERS * lines.length) / Math.max(1, characters));
  return Math.max(1, Math.min(fitting, limit * 4, MAX_PAGE));
};

interface PresentChild {
  readonly child: ChildReading;
  readonly any: boolean;
}

const presentChildren = async (
  db: Database,
  projectId: number,
  children: readonly ChildReading[],
): Promise<PresentChild[]> => {
  const present: PresentChild[] = [];
  for (const child of children) {
    const { rows } = await child.any(projectId).execute(db);
    present.push({ child, any: rows[0]?.any ?? false });
  }
  return present;
};

interface ReadChild {
  readonly key: string;
  readonly none: string | null;
  readonly byParent: ReadonlyMap<number, string>;
}

const readChildren = async (
  db: Database,
  children: readonly PresentChild[],
  ids: readonly number[],
): Promise<ReadChild[]> => {
  const read: ReadChild[] = [];
  for (const { child, any } of children) {
    const rows = any ? (await child.of(ids).execute(db)).rows : [];
    const byParent = new Map(rows.map(({ parent_id, json }) => [parent_id, json]));
    read.push({ key: child.key, none: child.none, byParent });
  }
  return read;
};

const withChildren = (line: string, id: number, children: readonly ReadChild[]): string => {
  if (children.length === 0) return line;
  let json = line.slice(0, -1);
  for (const { key, none, byParent } of children) {
    const value = byParent.get(id) ?? none;
    if (value !== null) json += `,"${key}":${value}`;
  }
  return `${json}}`;
};

async function* counted(
  source: AsyncIterable<Buffer>,
  onBytes: (bytes: number) => Promise<void>,
): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    yield chunk;
    await onBytes(bytes);
  }
}

/** Runs `run` in a read-only transaction with a snapshot of one moment. */
export const atOneMoment = <T>(ctx: Context, run: (db: Database) => Promise<T>): Promise<T> =>
  ctx.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (db) => {
      await sql`set transaction read only`.execute(db);
      return run(db);
    });
