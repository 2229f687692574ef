import { sql } from 'kysely';
import { RUNNING_IMPORT } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { requireNoPush } from '#domains/repositories/pushes.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, forbidden } from '#platform/errors.ts';
import { asReplaced } from './begin-import.ts';
import { emitImport } from './emit-progress.ts';
import { importScheduled } from './events.ts';
import { failExport } from './exporting/run.ts';
import { limitImportsByUrl } from './import-limit.ts';
import { hasRepository, lacksNumbers, numbersOf } from './importing/checkpoint.ts';
import { failImport } from './importing/finish.ts';
import { reserveNumbers } from './importing/numbering.ts';
import { importByUrl, importKey, importProject } from './jobs.ts';
import { FORK_TYPE, IMPORT_TYPE, type ImportRow, RUNNING_EXPORT } from './model.ts';
import { findImport } from './queries.ts';
import { RUNNING_RELATION_IMPORT } from './relation-imports/model.ts';
import { failRelationImport } from './relation-imports/store.ts';

/**
 * Cancels the running export of the project. It is then failed. A worker that is at it stops at its next checkpoint.
 *
 * @throws DomainError `forbidden`, `conflict` if none is running
 */
export const cancelExport = async (ctx: Context, project: ProjectRow): Promise<void> => {
  requireAbility(ctx, project, 'export');
  const row = await findRunningExport(ctx, project);
  if (!row) throw conflict('409 Conflict - no export of the project is running');
  await failExport(ctx, row.id, 'The export was canceled.');
};

/**
 * Cancels the running import that creates the project. It is then failed, and what was imported stays.
 *
 * @throws DomainError `forbidden`, `conflict` if none is running
 */
export const cancelImport = async (ctx: Context, project: ProjectRow): Promise<void> => {
  const row = await controlled(ctx, project);
  if (!row || !RUNNING_IMPORT.some((status) => status === row.status))
    throw conflict('409 Conflict - no import of the project is running');
  await failImport(ctx, row.id, 'The import was canceled.', { keepsArchive: true });
};

/**
 * Schedules a failed import again. It continues where it stopped.
 *
 * @throws DomainError `forbidden`, `conflict` if it has not failed, its archive is gone, another import replaces the
 * same project, a relation import or an export of the project is running, somebody pushes to it, or it has content that
 * the import would overwrite, `too_many_requests`
 */
export const retryImport = async (ctx: Context, project: ProjectRow): Promise<void> => {
  const found = await controlled(ctx, project);
  if (found?.status !== 'failed') throw conflict(NOT_FAILED);
  await ctx.transaction(async (tx) => {
    // Before the update, so that the import does not count itself.
    if (found.source_url !== null) await limitImportsByUrl(tx);
    const row = await tx.db
      .updateTable('project_imports')
      .set({
        status: 'scheduled',
        import_error: null,
        started_at: null,
        finished_at: null,
        created_at: sql`now()`,
        items_before: sql`(select coalesce(sum((value ->> 'done')::int), 0) from jsonb_each(relations))`,
        percentage_before: sql`percentage`,
      })
      .where('id', '=', found.id)
      .where('status', '=', 'failed')
      .where(sql<boolean>`(storage_key is not null or source_url is not null or download_parts <> '{}')`)
      .returningAll()
      .executeTakeFirst()
      .catch(asReplaced);
    if (!row) throw conflict((await isFailed(tx, found)) ? GONE : NOT_FAILED);
    if (await findRunning(tx, project)) throw conflict('409 Conflict - a relation import of the project is running');
    if (await findRunningExport(tx, project)) throw conflict('409 Conflict - an export of the project is running');
    // Waits for items that have taken a number but are not committed. Later ones wait for this transaction.
    if (row.import_type === IMPORT_TYPE) await reserveNumbers(tx, project.id, numbersOf(row) ?? {});
    await requireNoPush(tx, project);
    const obstacle = row.import_type === IMPORT_TYPE ? await findObstacle(tx, row) : null;
    if (obstacle !== null) throw conflict(obstacle);
    tx.enqueue(
      row.source_url === null ? importProject : importByUrl,
      { import_id: row.id },
      { key: importKey(row.id) },
    );
    await emitImport(tx, project, row, importScheduled);
  });
};

/**
 * Returns the refusal if the project got content before the import has read its archive: items whose numbers the archive
 * may have, or commits, although the import replaces the whole repository. Else null.
 */
const findObstacle = async ({ db }: Tx, row: ImportRow): Promise<string | null> => {
  const { rows } = await sql<{ has_items: boolean; has_commits: boolean }>`
    select not empty_repo as has_commits,
      exists (select from project_counters where project_id = projects.id and last_iid > 0) as has_items
    from projects where id = ${row.project_id}`.execute(db);
  const [{ has_items = false, has_commits = false } = {}] = rows;
  // The import's own items are among them. Nothing tells which ones the project has got since.
  if (has_items && lacksNumbers(row)) return BEGUN_EARLIER;
  return (has_items && numbersOf(row) === null) || (has_commits && !hasRepository(row)) ? IN_THE_WAY : null;
};

const IN_THE_WAY =
  '409 Conflict - the project has commits or items of its own, which the import would replace; import the archive again';

const BEGUN_EARLIER =
  '409 Conflict - an earlier version of the hub began this import, and a retry could collide with newer items; import the archive again as another project, then delete this one';

const NOT_FAILED = '409 Conflict - the import has not failed';

/** Another request may have scheduled it again. */
const isFailed = async ({ db }: Tx, { id }: Pick<ImportRow, 'id'>): Promise<boolean> => {
  const row = await db.selectFrom('project_imports').select('status').where('id', '=', id).executeTakeFirst();
  return row?.status === 'failed';
};

const GONE = '409 Conflict - the archive of the import is gone, and the keys of buckets are not kept; import it again';

/** Returns the import that the caller may cancel and retry: Maintainers, and the user who started it. */
const controlled = async (ctx: Context, project: ProjectRow): Promise<ImportRow | null> => {
  const row = await findImport(ctx, project.id);
  const isStarter = row !== null && row.user_id !== null && row.user_id === ctx.actor.userId;
  if (!isStarter && !can(ctx, project, 'export')) throw forbidden();
  return row === null || row.import_type === FORK_TYPE ? null : row;
};

/**
 * Cancels the running relation import of the project. The imported records stay.
 *
 * @throws DomainError `forbidden`, `conflict` if none is running
 */
export const cancelRelationImport = async (ctx: Context, project: ProjectRow): Promise<void> => {
  requireAbility(ctx, project, 'import_relation');
  const row = await findRunning(ctx, project);
  if (!row) throw conflict('409 Conflict - no relation import of the project is running');
  await failRelationImport(ctx, row.id, 'The import was canceled.', { keepsArchive: true });
};

const findRunningExport = (
  ctx: Pick<Context, 'db'>,
  { id }: ProjectRow,
): Promise<{ readonly id: number } | undefined> =>
  ctx.db
    .selectFrom('project_exports')
    .select('id')
    .where('project_id', '=', id)
    .where('status', 'in', RUNNING_EXPORT)
    .executeTakeFirst();

const findRunning = (ctx: Pick<Context, 'db'>, { id }: ProjectRow): Promise<{ readonly id: number } | undefined> =>
  ctx.db
    .selectFrom('relation_imports')
    .select('id')
    .where('project_id', '=', id)
    .where('status', 'in', RUNNING_RELATION_IMPORT)
    .executeTakeFirst();
