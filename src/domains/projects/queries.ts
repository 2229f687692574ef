import { sql } from 'kysely';
import { projectIsVisible } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import type { ProjectFilter } from './lists/filter.ts';
import { projectList } from './lists/list.ts';
import { DETAILS, type DetailPart, type ProjectPart, ROW } from './lists/parts.ts';
import { readProjects } from './lists/read.ts';
import type { ProjectDetails, ProjectRow, StatisticsRow } from './model.ts';

// The front door of lists/: nothing outside that folder imports another file of it.
export { listProjectsBelow } from './lists/below.ts';
export { PROJECT_ORDERS, type ProjectFilter, type ProjectOrder } from './lists/filter.ts';
export { type DetailPart, type NamespacePart, namespaceParts, type ProjectPart, ROW } from './lists/parts.ts';
export { projectsByIds } from './lists/read.ts';
export type { ProjectDetails, ProjectRow } from './model.ts';

/**
 * Returns the project if the caller can see it.
 *
 * @throws DomainError `not_found` (Project) if it does not exist or the caller cannot see it
 */
export const getProject = async (ctx: Context, id: IdOrPath): Promise<ProjectRow> => {
  const project = await findProject(ctx, id);
  if (!project) throw notFound('Project');
  return project;
};

/**
 * Finds the project, or returns null if the caller cannot see one. Paths are case-insensitive. `parts` limits what is
 * read.
 */
export const findProject = async (
  ctx: Context,
  id: IdOrPath,
  parts: readonly ProjectPart[] = ROW,
): Promise<ProjectRow | null> =>
  (await readProjects(ctx, id.path === undefined ? { ids: [id.id] } : { full_paths: [id.path] }, parts))[0] ?? null;

/** Returns the project with the details of the full REST record. */
export const getProjectDetails = async (
  ctx: Context,
  id: IdOrPath,
  extra: readonly DetailPart[] = [],
): Promise<ProjectDetails> => {
  const filter = id.path === undefined ? { ids: [id.id] } : { full_paths: [id.path] };
  const [project] = await readProjects(ctx, filter, [...DETAILS, ...extra]);
  if (!project) throw notFound('Project');
  return project;
};

/**
 * Lists the projects that match the filter and that the caller can see, newest first by default. With `parts`, only
 * those parts of each row are read and may be used.
 */
export const listProjects = (
  ctx: Context,
  filter: ProjectFilter,
  parts: readonly ProjectPart[] = ROW,
): List<ProjectRow> => projectList(ctx, filter, parts);

/** Lists the same projects with the details of the full REST record. */
export const listProjectDetails = (
  ctx: Context,
  filter: ProjectFilter,
  extra: readonly DetailPart[] = [],
): List<ProjectDetails> => projectList(ctx, filter, extra.length === 0 ? DETAILS : [...DETAILS, ...extra]);

/**
 * Returns the id of the project that had this path before, if the caller can see it. REST redirects GET requests there.
 */
export const findMovedProject = async (ctx: Context, path: string): Promise<number | null> => {
  const row = await ctx.db
    .selectFrom('redirects')
    .innerJoin('projects', 'projects.id', 'redirects.project_id')
    .select('projects.id')
    .where('redirects.path', '=', path.toLowerCase())
    .where(projectIsVisible(ctx.actor))
    .executeTakeFirst();
  return row?.id ?? null;
};

/** Returns the id of a user's personal namespace, or null. */
export const personalNamespaceId = async (ctx: Pick<Context, 'db'>, userId: number | null): Promise<number | null> => {
  const row = await ctx.db
    .selectFrom('namespaces')
    .select('id')
    // A literal: a generic plan does not use the partial index of personal namespaces for a parameter.
    .where(sql<boolean>`kind = 'user'`)
    .where('owner_id', '=', userId)
    .executeTakeFirst();
  return row?.id ?? null;
};

/** Returns the storage statistics of these projects by id. The caller checks access. */
export const statisticsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, StatisticsRow>> => {
  const rows = await ctx.db
    .selectFrom('project_statistics')
    .selectAll()
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.project_id, row]));
};

/** Returns which of the projects the caller has starred. */
export const starredByIds = async (ctx: Context, ids: readonly number[]): Promise<Map<number, boolean>> => {
  const rows = await ctx.db
    .selectFrom('project_stars')
    .select('project_id')
    .where('user_id', '=', ctx.actor.userId)
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.project_id, true]));
};
