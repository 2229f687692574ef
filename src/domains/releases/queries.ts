import { type Selectable, sql } from 'kysely';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { ReleaseLinks, Releases } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';

export interface ReleaseRow extends Selectable<Releases> {
  readonly project_path: string;
  /** Storage location, needed to read the commit. Never published. */
  readonly disk_path: string;
}

export type ReleaseLinkRow = Selectable<ReleaseLinks>;

/** The links and milestones of a release. */
export interface ReleaseParts {
  readonly id: number;
  readonly links: readonly ReleaseLinkRow[];
  readonly milestone_ids: readonly number[];
}

export const RELEASE_ORDERS = ['released_at', 'created_at'] as const;

export interface ReleaseFilter {
  readonly order_by?: (typeof RELEASE_ORDERS)[number] | null | undefined;
  readonly sort?: SortDirection | null | undefined;
}

/** Lists the releases of the project, newest first. @throws as `requireAbility` if the caller cannot see them */
export const listReleases = (ctx: Context, project: ProjectRow, filter: ReleaseFilter = {}): List<ReleaseRow> => {
  requireAbility(ctx, project, 'read_release');
  const query = releaseQuery(ctx).where('releases.project_id', '=', project.id);
  return listOf(ctx.db, query, sortKeys(filter), filter.sort ?? 'desc');
};

/** Lists the releases of many projects at once. The caller checks `read_release`. */
export const listReleasesBelow = (ctx: Context, filter: ReleaseFilter): BatchedList<ReleaseRow> =>
  batchedListOf(
    ctx.db,
    (projectId) => releaseQuery(ctx).where('releases.project_id', '=', projectId),
    sortKeys(filter),
    filter.sort ?? 'desc',
  );

/** Returns the release of the tag. @throws DomainError `not_found`, and as `requireAbility` */
export const getRelease = async (ctx: Context, project: ProjectRow, tag: string): Promise<ReleaseRow> => {
  requireAbility(ctx, project, 'read_release');
  const row = await releaseQuery(ctx)
    .where('releases.project_id', '=', project.id)
    .where('releases.tag', '=', tag)
    .executeTakeFirst();
  if (!row) throw notFound();
  return row;
};

/** Returns the newest published release. @throws as `getRelease` */
export const getLatestRelease = async (ctx: Context, project: ProjectRow): Promise<ReleaseRow> => {
  requireAbility(ctx, project, 'read_release');
  const row = await releaseQuery(ctx)
    .where('releases.project_id', '=', project.id)
    .where('releases.released_at', '<=', ctx.clock.now().toISOString())
    .orderBy('releases.released_at', 'desc')
    .orderBy('releases.id', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!row) throw notFound();
  return row;
};

/** Returns links and milestones of these releases by release id. */
export const releasePartsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, ReleaseParts>> => {
  const [links, milestones] = await Promise.all([
    ctx.db
      .selectFrom('release_links')
      .selectAll()
      .where(sql<boolean>`release_id = any (${ids}::bigint[])`)
      .orderBy('id', 'desc')
      .execute(),
    ctx.db
      .selectFrom('release_milestones')
      .selectAll()
      .where(sql<boolean>`release_id = any (${ids}::bigint[])`)
      .orderBy('milestone_id')
      .execute(),
  ]);
  const linksOf = Map.groupBy(links, (row) => row.release_id);
  const milestonesOf = Map.groupBy(milestones, (row) => row.release_id);
  return new Map(
    ids.map((id) => [
      id,
      { id, links: linksOf.get(id) ?? [], milestone_ids: (milestonesOf.get(id) ?? []).map((row) => row.milestone_id) },
    ]),
  );
};

const releaseQuery = (ctx: Pick<Context, 'db'>) =>
  ctx.db
    .selectFrom('releases')
    .innerJoin('projects', 'projects.id', 'releases.project_id')
    .selectAll('releases')
    .select(['projects.full_path as project_path', 'projects.disk_path']);

const sortKeys = ({ order_by }: ReleaseFilter): readonly SortKey<ReleaseRow>[] => {
  const column = order_by ?? 'released_at';
  return [
    { by: sql.ref(`releases.${column}`), of: (row) => row[column] },
    { by: sql.ref('releases.id'), of: (row) => row.id },
  ];
};
