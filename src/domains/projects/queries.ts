import { sql } from 'kysely';
import { projectIsVisible } from '#domains/access/policy.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import type { ProjectFilter } from './lists/filter.ts';
import { listProjects } from './lists/list.ts';
import { DETAILS, type DetailPart, type ProjectParts, type ProjectWith, ROW } from './lists/parts.ts';
import { readProjects } from './lists/read.ts';
import type { ProjectRow, StatisticsRow } from './model.ts';

// The front door of lists/: nothing outside that folder imports another file of it.
export { listProjectsBelow } from './lists/below.ts';
export { PROJECT_ORDERS, type ProjectFilter, type ProjectOrder } from './lists/filter.ts';
export { listProjects } from './lists/list.ts';
export {
  type DetailPart,
  namespaceParts,
  type ProjectDetails,
  type ProjectPart,
  type ProjectParts,
  type ProjectWith,
  ROW,
} from './lists/parts.ts';
export { projectsByIds } from './lists/read.ts';
export type { ProjectRow } from './model.ts';

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

/** Finds the project, or returns null if the caller cannot see one. Paths are case-insensitive. */
export const findProject = (ctx: Context, id: IdOrPath): Promise<ProjectRow | null> => findProjectWith(ctx, id, ROW);

/** Returns those projects with these full paths, compared case-insensitively, that the caller can see. */
export const projectsByPaths = async (ctx: Context, paths: readonly string[]): Promise<ProjectRow[]> =>
  paths.length === 0 ? [] : readProjects(ctx, { full_paths: paths }, ROW);

/** Finds these parts of the project, or returns null if the caller cannot see one. */
export const findProjectWith = async <const Parts extends ProjectParts>(
  ctx: Context,
  id: IdOrPath,
  parts: Parts,
): Promise<ProjectWith<Parts> | null> => (await readProjects(ctx, filterBy(id), parts))[0] ?? null;

/** Returns the project with the details of the full REST record. @throws like `getProject` */
export const getProjectDetails = async <const Extra extends readonly DetailPart[]>(
  ctx: Context,
  id: IdOrPath,
  ...extra: Extra
): Promise<ProjectWith<readonly [...typeof DETAILS, ...Extra]>> => {
  const [project] = await readProjects(ctx, filterBy(id), [...DETAILS, ...extra]);
  if (!project) throw notFound('Project');
  return project;
};

const filterBy = (id: IdOrPath): ProjectFilter =>
  id.path === undefined ? { ids: [id.id] } : { full_paths: [id.path] };

/** Lists projects with the details of the full REST record. */
export const listProjectDetails = <const Extra extends readonly DetailPart[]>(
  ctx: Context,
  filter: ProjectFilter,
  ...extra: Extra
): List<ProjectWith<readonly [...typeof DETAILS, ...Extra]>> => listProjects(ctx, filter, [...DETAILS, ...extra]);

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

/** Returns the ids of the projects that had these paths before, by path in lower case. Does not check permissions. */
export const movedProjectIds = async (
  ctx: Pick<Context, 'db'>,
  paths: readonly string[],
): Promise<ReadonlyMap<string, number>> => {
  if (paths.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('redirects')
    .select(['path', 'project_id'])
    .where(sql<boolean>`path = any (${paths.map((path) => path.toLowerCase())}::text[])`)
    .execute();
  return new Map(rows.flatMap(({ path, project_id }) => (project_id === null ? [] : [[path, project_id] as const])));
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
