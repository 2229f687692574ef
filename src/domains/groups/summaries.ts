import { sql } from 'kysely';
import { GUEST, OWNER } from '#domains/access/model.ts';
import { namespaceIsVisible, namespacesOf, projectIsVisible } from '#domains/access/policy.ts';
import { isUnexpired } from '#domains/access/roles.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf, type SortKey, searchedListOf } from '#platform/db/list.ts';
import { getNamespace, type NamespaceRow, namespaceQuery, namespacesContaining } from './queries.ts';

/** The storage of all projects in a group and in all groups below it, in bytes. */
export interface GroupStatistics {
  readonly storage_size: number;
  readonly repository_size: number;
  readonly wiki_size: number;
  readonly lfs_objects_size: number;
  readonly job_artifacts_size: number;
  readonly pipeline_artifacts_size: number;
  readonly packages_size: number;
  readonly snippets_size: number;
  readonly uploads_size: number;
  readonly container_registry_size: number;
}

/** Returns the statistics of these groups by id. All groups have them, and every change updates them. */
export const groupStatisticsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, GroupStatistics>> => {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<GroupStatistics & { id: number }>`
    select id, repository_size + wiki_size + lfs_objects_size + job_artifacts_size + pipeline_artifacts_size
        + packages_size + snippets_size + uploads_size as storage_size,
      repository_size, wiki_size, lfs_objects_size, job_artifacts_size, pipeline_artifacts_size, packages_size,
      snippets_size, uploads_size, container_registry_size
    from (
      select given.id, ${sql.join(SIZES.map((size) => sql`coalesce(sum(s.${sql.ref(size)}), 0)::bigint as ${sql.ref(size)}`))}
      from unnest(${ids}::bigint[]) given (id)
      left join namespace_sizes s on s.namespace_id = given.id
      group by given.id) sums`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/** Merges the size rows that changes have added into one row per group. The sums stay the same. */
export const foldSizes = async (ctx: Pick<Context, 'db'>): Promise<void> => {
  const names = sql.join(SIZES.map((size) => sql.ref(size)));
  await sql`
    with gone as (
      delete from namespace_sizes where namespace_id in (
        select namespace_id from namespace_sizes group by namespace_id having count(*) > 1)
      returning *)
    insert into namespace_sizes (namespace_id, ${names})
      select gone.namespace_id, ${sql.join(SIZES.map((size) => sql`sum(gone.${sql.ref(size)})`))}
      from gone group by gone.namespace_id`.execute(ctx.db);
};

const SIZES = [
  'repository_size',
  'wiki_size',
  'lfs_objects_size',
  'job_artifacts_size',
  'pipeline_artifacts_size',
  'packages_size',
  'snippets_size',
  'uploads_size',
  'container_registry_size',
] as const;

/** The number of direct children of a group that the caller can see. */
export interface GroupCounts {
  readonly id: number;
  readonly subgroups: number;
  readonly projects: number;
  readonly members: number;
}

/** Returns the counts of these groups by id. */
export const groupCountsByIds = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, GroupCounts>> => {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<GroupCounts>`
    select n.id,
      (select count(*) from namespaces d where d.parent_id = n.id and ${namespaceIsVisible(ctx.actor, 'd')}) as subgroups,
      (select count(*) from projects p where p.namespace_id = n.id and ${projectIsVisible(ctx.actor, 'p')}) as projects,
      (select count(*) from members m where m.namespace_id = n.id and m.user_id is not null
        and ${isUnexpired('m')}) as members
    from namespaces n where n.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns how many distinct users are members of each of these groups or of a group below it. */
export const memberCountsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, number>> => {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<{ id: number; count: number }>`
    select n.id, count(distinct m.user_id) as count from namespaces n
    join namespaces d on d.traversal_ids @> array[n.id]
    left join members m on m.namespace_id = d.id and ${isUnexpired('m')}
    where n.id = any (${ids}::bigint[]) group by n.id`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row.count]));
};

/** Returns the avatars of the owners of these personal namespaces by namespace id. They are stored with the users. */
export const ownerAvatarsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, { readonly id: number; readonly avatar_key: string | null }>> => {
  if (ids.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('namespaces')
    .innerJoin('users', 'users.id', 'namespaces.owner_id')
    .select(['namespaces.id as namespace_id', 'users.id', 'users.avatar_key'])
    .where(sql<boolean>`namespaces.id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map(({ namespace_id, ...owner }) => [namespace_id, owner]));
};

export interface NamespaceFilter {
  readonly search?: string | undefined;
  readonly ownedOnly?: boolean | undefined;
  readonly topLevelOnly?: boolean | undefined;
}

/** Lists the namespaces where the caller holds a role: their own and their groups. Administrators get all. */
export const listNamespaces = (ctx: Context, filter: NamespaceFilter): List<NamespaceRow> => {
  const { actor } = ctx;
  let query = namespaceQuery(ctx);
  if (filter.ownedOnly || !actor.isAdmin) {
    query = query.where(
      actor.userId === null
        ? sql<boolean>`false`
        : sql<boolean>`namespaces.id in ${namespacesOf(actor, filter.ownedOnly ? OWNER : GUEST)}`,
    );
  }
  if (filter.topLevelOnly) query = query.where('namespaces.parent_id', 'is', null);
  const byId: readonly SortKey<NamespaceRow>[] = [{ by: sql.ref('namespaces.id'), of: (row) => row.id }];
  return filter.search
    ? searchedListOf(ctx.db, query, byId, 'asc', namespacesContaining(filter.search))
    : listOf(ctx.db, query, byId, 'asc');
};

const SUGGESTIONS = 1;
const MAX_TRIES = 100;

/**
 * Returns whether a namespace with this path exists below the parent (or at the top level), and if so, a similar free
 * path.
 *
 * @throws DomainError `not_found` if the caller cannot see the parent
 */
export const findNamespaceNamed = async (
  ctx: Context,
  path: string,
  parentId: number | null,
): Promise<{ readonly exists: boolean; readonly suggests: readonly string[] }> => {
  const above = parentId === null ? '' : `${(await getNamespace(ctx, { id: parentId })).full_path}/`;
  const candidates = [path, ...Array.from({ length: MAX_TRIES }, (_, i) => `${path}${i + 1}`)];
  const rows = await ctx.db
    .selectFrom('namespaces')
    .select(sql<string>`lower(path)`.as('path'))
    .where(sql<boolean>`lower(full_path) = any (${candidates.map((each) => (above + each).toLowerCase())}::text[])`)
    .execute();
  const taken = new Set(rows.map((row) => row.path));
  if (!taken.has(path.toLowerCase())) return { exists: false, suggests: [] };
  const free = candidates.filter((each) => !taken.has(each.toLowerCase()));
  return { exists: true, suggests: free.slice(0, SUGGESTIONS) };
};
