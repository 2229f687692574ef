import { type RawBuilder, type Selectable, sql } from 'kysely';
import {
  ancestorIds,
  type Container,
  type ContainerKind,
  getContainer,
  getOwner,
  ownerColumns,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import { isOwnedAround, issueIsVisible, visibleGroupsFrom } from '#domains/planning/visibility.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Milestones } from '#platform/db/tables.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { invalid, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import type { MilestoneState } from './model.ts';

export interface MilestoneRow extends Selectable<Milestones> {
  /** The full path of its project or group. */
  readonly owner_path: string;
}

export interface MilestoneFilter {
  readonly ids?: readonly number[] | null | undefined;
  readonly iids?: readonly number[] | null | undefined;
  readonly state?: MilestoneState | null | undefined;
  readonly title?: string | null | undefined;
  /** Matches title and description. */
  readonly search?: string | null | undefined;
  readonly search_title?: string | null | undefined;
  readonly include_ancestors?: boolean | null | undefined;
  readonly include_descendants?: boolean | null | undefined;
  readonly updated_after?: string | null | undefined;
  readonly updated_before?: string | null | undefined;
}

export interface MilestoneStats {
  readonly id: number;
  readonly total_issues_count: number;
  readonly closed_issues_count: number;
}

/** Lists the milestones of a group or project by due date. @throws DomainError `not_found`, `forbidden` */
export const listMilestones = (
  ctx: Context,
  container: Container,
  filter: MilestoneFilter = {},
): List<MilestoneRow> => {
  requireContainerAbility(ctx, container, 'read_milestone');
  const { project_id, namespace_id } = ownerColumns(container);
  const parts =
    project_id === null
      ? [sql<boolean>`milestones.namespace_id = ${namespace_id}`]
      : [sql<boolean>`milestones.project_id = ${project_id}`];
  if (filter.include_ancestors) {
    parts.push(sql<boolean>`milestones.namespace_id = any (${ancestorIds(container)}::bigint[])`);
  }
  if (filter.include_descendants && namespace_id !== null) {
    parts.push(sql<boolean>`milestones.namespace_id = any (array${visibleGroupsFrom(ctx.actor, namespace_id)})`);
  }
  return listOf(ctx.db, matching(ctx, filter).where(anyOf(parts)), BY_DUE_DATE, 'asc');
};

/** Lists the milestones of many projects or groups at once. The caller checks `read_milestone`. */
export const listMilestonesBelow = (
  ctx: Context,
  kind: Container['kind'],
  filter: MilestoneFilter,
): BatchedList<MilestoneRow> => {
  const reach = { ancestors: filter.include_ancestors, descendants: filter.include_descendants };
  return batchedListOf(
    ctx.db,
    (parentId) => matching(ctx, filter).where(isOwnedAround(ctx, 'milestones', { kind, id: parentId }, reach)),
    BY_DUE_DATE,
    'asc',
  );
};

/** A milestone with its group or project. */
export interface MilestoneAt {
  readonly container: Container;
  readonly milestone: MilestoneRow;
}

/**
 * Returns a milestone of the group or project itself.
 *
 * @throws DomainError `not_found` (Group, Project, Milestone), `forbidden` if the caller may not read its milestones
 */
export const getMilestoneAt = async (
  ctx: Context,
  kind: ContainerKind,
  place: IdOrPath,
  id: number,
): Promise<MilestoneAt> => {
  const container = await getContainer(ctx, kind, place);
  requireContainerAbility(ctx, container, 'read_milestone');
  return { container, milestone: await getMilestone(ctx, container, id) };
};

/** Returns the milestone with this id. @throws DomainError `not_found`, also if the caller may not read it */
export const getMilestoneById = async (ctx: Context, id: number): Promise<MilestoneAt> => {
  const milestone = (await milestonesByIds(ctx, [id])).get(id);
  if (!milestone) throw notFound('Milestone');
  const container = await getOwner(ctx, milestone);
  requireContainerAbility(ctx, container, 'read_milestone');
  return { container, milestone };
};

/** Returns a milestone of the container itself, without checking access. @throws DomainError `not_found` (Milestone) */
export const getMilestone = async (
  ctx: Pick<Context, 'db'>,
  container: Container,
  id: number,
): Promise<MilestoneRow> => {
  const milestone = (await milestonesByIds(ctx, [id])).get(id);
  const { project_id, namespace_id } = ownerColumns(container);
  if (!milestone || milestone.project_id !== project_id || milestone.namespace_id !== namespace_id) {
    throw notFound('Milestone');
  }
  return milestone;
};

/** Returns the milestones with these ids, without checking access. */
export const milestonesByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, MilestoneRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await milestoneQuery(ctx).where(sql<boolean>`milestones.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns the milestone if it belongs to the project or a group above it; null otherwise. */
const findAvailableMilestone = async (
  ctx: Pick<Context, 'db'>,
  project: ProjectRow,
  id: number,
): Promise<MilestoneRow | null> => {
  const milestone = (await milestonesByIds(ctx, [id])).get(id);
  if (!milestone) return null;
  const isAvailable =
    milestone.project_id === project.id ||
    (milestone.namespace_id !== null && project.namespace.traversal_ids.includes(milestone.namespace_id));
  return isAvailable ? milestone : null;
};

/**
 * Returns the id of a milestone for an issue or merge request: undefined if none was given, null for 0. A milestone that
 * the project cannot use is reported like one that does not exist.
 *
 * @throws DomainError `invalid`
 */
export const readMilestone = async (
  ctx: Pick<Context, 'db'>,
  project: ProjectRow,
  id: number | null | undefined,
): Promise<number | null | undefined> => {
  if (id === undefined || id === null || id === 0) return id === 0 ? null : id;
  const milestone = await findAvailableMilestone(ctx, project, id);
  if (!milestone) throw invalid({ milestone_id: ['is invalid'] });
  return milestone.id;
};

/**
 * Returns the milestone that each name stands for, in their order: its title, or else its number in the project or group
 * itself. The caller checks `read_milestone`.
 */
export const milestonesByNames = async (
  ctx: Pick<Context, 'db'>,
  wanted: readonly { readonly project_id: number | null; readonly namespace_id: number; readonly name: string }[],
): Promise<(MilestoneRow | null)[]> => {
  if (wanted.length === 0) return [];
  const { rows } = await sql<MilestoneRow & { readonly position: number }>`
    select w.position::int as position, m.*, coalesce(p.full_path, g.full_path) as owner_path
    from unnest(${wanted.map(({ project_id }) => project_id)}::bigint[], ${wanted.map((each) => each.namespace_id)}::bigint[],
      ${wanted.map(({ name }) => name)}::text[]) with ordinality as w (project_id, namespace_id, name, position)
    join namespaces n on n.id = w.namespace_id
    cross join lateral (
      select milestones.* from milestones
      where (milestones.project_id = w.project_id or milestones.namespace_id = any (n.traversal_ids))
        and (milestones.title = w.name
          or (milestones.iid = case when w.name ~ '^[1-9][0-9]{0,8}$' then w.name::int end
            and case when w.project_id is null then milestones.namespace_id = w.namespace_id
              else milestones.project_id = w.project_id end))
      order by milestones.title = w.name desc, milestones.project_id nulls last, milestones.id
      limit 1) m
    left join projects p on p.id = m.project_id
    left join namespaces g on g.id = m.namespace_id`.execute(ctx.db);
  const found = new Map(rows.map(({ position, ...milestone }) => [position, milestone]));
  return wanted.map((_, index) => found.get(index + 1) ?? null);
};

/** Counts the issues of the milestones that the caller can see. */
export const milestoneStatsByIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<Map<number, MilestoneStats>> => {
  const { rows } = await sql<MilestoneStats>`
    select issues.milestone_id as id, count(*) as total_issues_count,
      count(*) filter (where issues.state = 'closed') as closed_issues_count
    from issues join projects on projects.id = issues.project_id
    where issues.milestone_id = any (${ids}::bigint[]) and ${issueIsVisible(ctx.actor)}
    group by issues.milestone_id`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

const BY_DUE_DATE: readonly SortKey<MilestoneRow>[] = [
  { by: sql`coalesce(milestones.due_date, 'infinity'::date)`, of: (row) => row.due_date ?? 'infinity' },
  { by: sql.ref('milestones.id'), of: (row) => row.id },
];

const milestoneQuery = (ctx: Pick<Context, 'db'>) =>
  ctx.db
    .selectFrom('milestones')
    .selectAll('milestones')
    .select(
      sql<string>`coalesce((select p.full_path from projects p where p.id = milestones.project_id),
        (select n.full_path from namespaces n where n.id = milestones.namespace_id))`.as('owner_path'),
    );

const matching = (ctx: Context, filter: MilestoneFilter) => {
  let query = milestoneQuery(ctx);
  if (filter.ids) query = query.where(sql<boolean>`milestones.id = any (${filter.ids}::bigint[])`);
  if (filter.iids) query = query.where(sql<boolean>`milestones.iid = any (${filter.iids}::bigint[])`);
  if (filter.state) query = query.where('milestones.state', '=', filter.state);
  if (filter.title != null) query = query.where('milestones.title', '=', filter.title);
  if (filter.search) {
    const pattern = containing(filter.search);
    query = query.where(sql<boolean>`(milestones.title ilike ${pattern} or milestones.description ilike ${pattern})`);
  }
  if (filter.search_title) query = query.where(sql<boolean>`milestones.title ilike ${containing(filter.search_title)}`);
  const updated = sql.ref('milestones.updated_at');
  if (filter.updated_after) query = query.where(atOrAfter(updated, filter.updated_after));
  if (filter.updated_before) query = query.where(atOrBefore(updated, filter.updated_before));
  return query;
};

const anyOf = (parts: readonly RawBuilder<boolean>[]): RawBuilder<boolean> =>
  sql<boolean>`(${sql.join(parts, sql` or `)})`;
