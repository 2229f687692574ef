import { type RawBuilder, type Selectable, sql } from 'kysely';
import { RUNNING_IMPORT } from '#domains/projects/model.ts';
import { can, type JudgedProject, requireAbility } from '#domains/projects/policy.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { ImportFailures } from '#platform/db/tables.ts';
import { DomainError, forbidden, notFound } from '#platform/errors.ts';
import { type ExportRow, type ExportState, exportStatus, type ImportRow } from './model.ts';
import { readCounts } from './progress.ts';
import { RELATIONS } from './relations/all.ts';

export type ImportFailureRow = Selectable<ImportFailures>;

/** Returns the project if the caller may follow its exports and imports. @throws DomainError `not_found`, `forbidden` */
export const getProjectOfTransfers = async (ctx: Context, path: string): Promise<ProjectRow> => {
  const project = await getProject(ctx, { path });
  requireAbility(ctx, project, 'export');
  return project;
};

/** Whether projects can be exported, and exports be seen. */
export const areExportsOn = async (ctx: Context): Promise<boolean> => (await getSettings(ctx)).project_export_enabled;

/** @throws DomainError `forbidden` if the caller may not export, `not_found` while exports are turned off */
export const getExportState = async (ctx: Context, project: ProjectRow): Promise<ExportState> => {
  requireAbility(ctx, project, 'export');
  if (!(await areExportsOn(ctx))) throw notFound();
  return readExportState(ctx, project.id);
};

/** Does not check permissions. */
export const readExportState = async (ctx: Pick<Context, 'db'>, projectId: number): Promise<ExportState> =>
  (await exportStatesByProjects(ctx, [projectId])).get(projectId) ?? stateOf([]);

/** Returns the export state of each project. Does not check permissions. */
export const exportStatesByProjects = async (
  ctx: Pick<Context, 'db'>,
  projectIds: readonly number[],
): Promise<ReadonlyMap<number, ExportState>> => {
  const { rows } = await sql<ExportRow & { is_file: boolean }>`
    select e.* from unnest(${projectIds}::bigint[]) as wanted (id) cross join lateral (
      (select *, storage_key is not null and expires_at > now() as is_file from project_exports
        where project_id = wanted.id order by id desc limit 1)
      union all
      (select *, true from project_exports
        where project_id = wanted.id and storage_key is not null and expires_at > now() order by id desc limit 1)) e
    order by e.id desc`.execute(ctx.db);
  const byProject = Map.groupBy(rows, (row) => row.project_id);
  return new Map(projectIds.map((id) => [id, stateOf(byProject.get(id) ?? [])]));
};

const stateOf = (rows: readonly (ExportRow & { readonly is_file: boolean })[]): ExportState => {
  const latest = rows[0] ?? null;
  const file = rows.find((row) => row.is_file) ?? null;
  return { status: exportStatus(latest, file), latest, file };
};

export interface ExportFile {
  readonly key: string;
  readonly filename: string;
  readonly size: number;
}

/**
 * Returns the finished archive for download. One with relations that only administrators see is for administrators.
 *
 * @throws DomainError `not_found` if there is none, `forbidden`
 */
export const getExportFile = async (ctx: Context, project: ProjectRow): Promise<ExportFile> => {
  const { file } = await getExportState(ctx, project);
  const found = file?.storage_key ? await ctx.services.storage.stat(file.storage_key) : null;
  if (!file?.storage_key || !file.filename || !found)
    throw new DomainError('not_found', '404 Not found or has expired');
  if (!ctx.actor.isAdmin && holdsPrivateRelations(file)) {
    throw forbidden('An administrator exported what only administrators may see. Export the project again');
  }
  return { key: file.storage_key, filename: file.filename, size: found.size };
};

const holdsPrivateRelations = ({ relations }: ExportRow): boolean => {
  const counts = readCounts(relations);
  return RELATIONS.some(({ name, forAdministrators }) => forAdministrators && (counts[name]?.done ?? 0) > 0);
};

/**
 * Returns the import that created the project, or null. Everyone who sees the project may see it, except its problems.
 */
export const findImport = async (ctx: Pick<Context, 'db'>, projectId: number): Promise<ImportRow | null> =>
  (await ctx.db.selectFrom('project_imports').selectAll().where('project_id', '=', projectId).executeTakeFirst()) ??
  null;

/** Returns the imports of many projects by project id; none for anonymous callers. */
export const importsByProjects = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  projectIds: readonly number[],
): Promise<ReadonlyMap<number, ImportRow>> => {
  if (ctx.actor.userId === null) return new Map();
  const wanted = sql<boolean>`project_id = any (${projectIds}::bigint[])`;
  const rows = await ctx.db.selectFrom('project_imports').selectAll().where(wanted).execute();
  return new Map(rows.map((row) => [row.project_id, row]));
};

/**
 * Returns whether the caller may see what went wrong in the project's import. The messages can reveal other servers and
 * the content of the archive.
 */
export const canSeeProblems = (ctx: Context, project: JudgedProject): boolean => can(ctx, project, 'export');

/** Returns the running import that will replace the project, or null. */
export const findReplacement = async (ctx: Pick<Context, 'db'>, projectId: number): Promise<ImportRow | null> =>
  (await ctx.db
    .selectFrom('project_imports')
    .selectAll()
    .where('replaces_project_id', '=', projectId)
    .where('status', 'in', RUNNING_IMPORT)
    .executeTakeFirst()) ?? null;

/** Returns the items that could not be imported, newest first. */
export const listImportFailures = (ctx: Context, projectId: number): List<ImportFailureRow> =>
  listOf(ctx.db, failuresOf(ctx, sql`${projectId}`), FAILURES_BY_ID, 'desc');

/** Returns the same for many projects. */
export const importFailuresBelow = (ctx: Context): BatchedList<ImportFailureRow> =>
  batchedListOf(ctx.db, (projectId) => failuresOf(ctx, projectId), FAILURES_BY_ID, 'desc');

const failuresOf = (ctx: Context, projectId: RawBuilder<number>) =>
  ctx.db.selectFrom('import_failures').selectAll().where('project_id', '=', projectId);

const FAILURES_BY_ID: readonly SortKey<ImportFailureRow>[] = [{ by: sql`import_failures.id`, of: ({ id }) => id }];
