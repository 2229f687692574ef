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
import {
  isOwnedAround,
  issueIsVisible,
  issueIsVisibleIn,
  mergeRequestIsVisible,
  visibleGroupsFrom,
} from '#domains/planning/visibility.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Labels } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

export type LabelRow = Selectable<Labels>;

export interface LabelFilter {
  readonly search?: string | null | undefined;
  readonly title?: string | null | undefined;
  /** Include labels of the groups above. */
  readonly include_ancestor_groups?: boolean | null | undefined;
  /** For a group: include labels of the groups below that the caller can see. */
  readonly include_descendant_groups?: boolean | null | undefined;
  readonly archived?: boolean | null | undefined;
}

/** The number of issues and merge requests with the label that the caller can see. */
export interface LabelCounts {
  readonly id: number;
  readonly open_issues_count: number;
  readonly closed_issues_count: number;
  readonly open_merge_requests_count: number;
}

/** Lists the labels of a group or project by title. @throws DomainError `not_found`, `forbidden` */
export const listLabels = (ctx: Context, container: Container, filter: LabelFilter = {}): List<LabelRow> => {
  requireContainerAbility(ctx, container, 'read_label');
  return listOf(
    ctx.db,
    matching(ctx, filter).where(
      isIn(
        container,
        filter.include_ancestor_groups ? ancestorIds(container) : [],
        filter.include_descendant_groups ? ctx : null,
      ),
    ),
    BY_TITLE,
    'asc',
  );
};

/** Lists the labels of many projects or groups at once. The caller checks `read_label`. */
export const listLabelsBelow = (ctx: Context, kind: Container['kind'], filter: LabelFilter): BatchedList<LabelRow> => {
  const reach = { ancestors: filter.include_ancestor_groups, descendants: filter.include_descendant_groups };
  return batchedListOf(
    ctx.db,
    (parentId) => matching(ctx, filter).where(isOwnedAround(ctx, 'labels', { kind, id: parentId }, reach)),
    BY_TITLE,
    'asc',
  );
};

/** Finds a label by id or title. Own labels take precedence over inherited ones. */
const findLabel = async (
  ctx: Pick<Context, 'db'>,
  container: Container,
  idOrTitle: string,
  includeAncestors: boolean,
): Promise<LabelRow | null> => {
  const id = /^\d{1,15}$/.test(idOrTitle) ? Number(idOrTitle) : null;
  const row = await ctx.db
    .selectFrom('labels')
    .selectAll()
    .where(isIn(container, includeAncestors ? ancestorIds(container) : []))
    .where(sql<boolean>`(labels.id = ${id}::bigint or labels.title = ${idOrTitle})`)
    .orderBy(sql`labels.id = ${id}::bigint`, (order) => order.desc().nullsLast())
    .orderBy('labels.id')
    .executeTakeFirst();
  return row ?? null;
};

/** A label with the group or project in which it was looked for. */
export interface LabelAt {
  readonly container: Container;
  readonly label: LabelRow;
}

/**
 * Returns a label that the group or project has or inherits.
 *
 * @throws DomainError `not_found` (Group, Project, Label), `forbidden` if the caller may not read its labels
 */
export const getLabelAt = async (
  ctx: Context,
  kind: ContainerKind,
  place: IdOrPath,
  idOrTitle: string,
  includeAncestors = true,
): Promise<LabelAt> => {
  const container = await getContainer(ctx, kind, place);
  return { container, label: await getLabel(ctx, container, idOrTitle, includeAncestors) };
};

/** Returns the label with this id. @throws DomainError `not_found`, also if the caller may not read it */
export const getLabelById = async (ctx: Context, id: number): Promise<LabelAt> => {
  const label = (await labelsByIds(ctx, [id])).get(id);
  if (!label) throw notFound('Label');
  const container = await getOwner(ctx, label);
  requireContainerAbility(ctx, container, 'read_label');
  return { container, label };
};

/** The same in a container that is loaded. @throws DomainError as `getLabelAt` */
export const getLabel = async (
  ctx: Context,
  container: Container,
  idOrTitle: string,
  includeAncestors: boolean,
): Promise<LabelRow> => {
  requireContainerAbility(ctx, container, 'read_label');
  const label = await findLabel(ctx, container, idOrTitle, includeAncestors);
  if (!label) throw notFound('Label');
  return label;
};

/** Returns the labels with these ids, without checking access. */
export const labelsByIds = async (ctx: Pick<Context, 'db'>, ids: readonly number[]): Promise<Map<number, LabelRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await ctx.db.selectFrom('labels').selectAll().where(sql<boolean>`id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns the labels with these titles, of the project or of a group above it. */
export const labelsByTitles = (
  ctx: Pick<Context, 'db'>,
  project: ProjectRow,
  titles: readonly string[],
): Promise<LabelRow[]> =>
  titles.length === 0
    ? Promise.resolve([])
    : ctx.db
        .selectFrom('labels')
        .selectAll()
        .where(isAvailable(project))
        .where(sql<boolean>`labels.title = any (${titles}::text[])`)
        .orderBy('labels.title')
        .execute();

/** A title or id, in a group or project with the groups above it. */
export interface NamedIn {
  readonly project_id: number | null;
  /** The group, or the namespace of the project. */
  readonly namespace_id: number;
  readonly name: string;
}

/**
 * Returns the label that each name stands for, in their order: its title, or else its id. Own labels take precedence over
 * inherited ones. The caller checks `read_label`.
 */
export const labelsByNames = async (
  ctx: Pick<Context, 'db'>,
  wanted: readonly NamedIn[],
): Promise<(LabelRow | null)[]> => {
  if (wanted.length === 0) return [];
  const { rows } = await sql<LabelRow & { readonly position: number }>`
    select w.position::int as position, l.*
    from unnest(${wanted.map(({ project_id }) => project_id)}::bigint[], ${wanted.map((each) => each.namespace_id)}::bigint[],
      ${wanted.map(({ name }) => name)}::text[]) with ordinality as w (project_id, namespace_id, name, position)
    join namespaces n on n.id = w.namespace_id
    cross join lateral (
      select labels.* from labels
      where (labels.project_id = w.project_id or labels.namespace_id = any (n.traversal_ids))
        and (labels.title = w.name or labels.id = case when w.name ~ '^[1-9][0-9]{0,14}$' then w.name::bigint end)
      order by labels.title = w.name desc, labels.project_id nulls last, labels.id
      limit 1) l`.execute(ctx.db);
  const found = new Map(rows.map(({ position, ...label }) => [position, label]));
  return wanted.map((_, index) => found.get(index + 1) ?? null);
};

/** Returns the labels with these ids that the project can use. */
export const availableLabelsByIds = (
  ctx: Pick<Context, 'db'>,
  project: ProjectRow,
  ids: readonly number[],
): Promise<LabelRow[]> =>
  ctx.db
    .selectFrom('labels')
    .selectAll()
    .where(isAvailable(project))
    .where(sql<boolean>`labels.id = any (${ids}::bigint[])`)
    .execute();

/** Returns the labels of these issues by issue id, each list sorted by title. */
export const labelsByIssueIds = (ctx: Pick<Context, 'db'>, ids: readonly number[]): Promise<Map<number, LabelRow[]>> =>
  labelsOf(ctx, 'issue_id', ids);

/** Returns the labels of these merge requests by merge request id, each list sorted by title. */
export const labelsByMergeRequestIds = (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, LabelRow[]>> => labelsOf(ctx, 'merge_request_id', ids);

/** Counts the labelled items in the project, or everywhere below the group, that the caller can see. */
export const labelCountsByIds = async (
  ctx: Context,
  container: Container,
  ids: readonly number[],
): Promise<Map<number, LabelCounts>> => {
  const [issues, mergeRequests] =
    container.kind === 'project' ? countedIn(ctx, container.project) : countedBelow(ctx, container.group.id);
  const { rows } = await sql<LabelCounts>`
    select l.id, i.open_issues_count, i.closed_issues_count, m.open_merge_requests_count
    from labels l cross join lateral (
      select count(*) filter (where issues.state = 'opened') as open_issues_count,
        count(*) filter (where issues.state = 'closed') as closed_issues_count
      from label_links k join issues on issues.id = k.issue_id ${issues} and k.label_id = l.id) i
    cross join lateral (
      select count(*) as open_merge_requests_count
      from label_links k join merge_requests on merge_requests.id = k.merge_request_id ${mergeRequests}
        and k.label_id = l.id and merge_requests.state = 'opened') m
    where l.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/** Restricts issues and merge requests to what the caller can see in the project. */
const countedIn = (ctx: Context, project: ProjectRow) => {
  const [readsIssues, readsMergeRequests] = [can(ctx, project, 'read_issue'), can(ctx, project, 'read_merge_request')];
  return [
    sql`where issues.project_id = ${project.id} and ${readsIssues ? issueIsVisibleIn(ctx, project) : sql`false`}`,
    sql`where merge_requests.project_id = ${project.id} and ${sql.lit(readsMergeRequests)}`,
  ] as const;
};

/** The same everywhere below the group. */
const countedBelow = ({ actor }: Context, groupId: number) => {
  const below = sql`projects.namespace_id in (
    select n.id from namespaces n where n.traversal_ids @> array[${groupId}::bigint])`;
  return [
    sql`join projects on projects.id = issues.project_id where ${below} and ${issueIsVisible(actor)}`,
    sql`join projects on projects.id = merge_requests.project_id where ${below} and ${mergeRequestIsVisible(actor)}`,
  ] as const;
};

const BY_TITLE: readonly SortKey<LabelRow>[] = [
  { by: sql.ref('labels.title'), of: (row) => row.title },
  { by: sql.ref('labels.id'), of: (row) => row.id },
];

const matching = (ctx: Context, filter: LabelFilter) => {
  let query = ctx.db.selectFrom('labels').selectAll('labels');
  if (filter.search) {
    const pattern = containing(filter.search);
    query = query.where(sql<boolean>`(labels.title ilike ${pattern} or labels.description ilike ${pattern})`);
  }
  if (filter.title != null) query = query.where('labels.title', '=', filter.title);
  if (filter.archived != null) query = query.where('labels.archived', '=', filter.archived);
  return query;
};

/** `reader` also includes labels of the groups below that they can see. */
const isIn = (
  container: Container,
  ancestors: readonly number[],
  reader: Pick<Context, 'actor'> | null = null,
): RawBuilder<boolean> => {
  const { project_id, namespace_id } = ownerColumns(container);
  const own =
    project_id === null
      ? reader
        ? sql<boolean>`labels.namespace_id = any (array${visibleGroupsFrom(reader.actor, namespace_id)})`
        : sql<boolean>`labels.namespace_id = ${namespace_id}`
      : sql<boolean>`labels.project_id = ${project_id}`;
  if (ancestors.length === 0) return own;
  return sql<boolean>`(${own} or labels.namespace_id = any (${ancestors}::bigint[]))`;
};

const isAvailable = (project: ProjectRow): RawBuilder<boolean> =>
  isIn({ kind: 'project', project }, project.namespace.traversal_ids);

const labelsOf = async (
  ctx: Pick<Context, 'db'>,
  column: 'issue_id' | 'merge_request_id',
  ids: readonly number[],
): Promise<Map<number, LabelRow[]>> => {
  if (ids.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('label_links')
    .innerJoin('labels', 'labels.id', 'label_links.label_id')
    .selectAll('labels')
    .select(sql<number>`${sql.ref(`label_links.${column}`)}`.as('subject_id'))
    .where(sql<boolean>`${sql.ref(`label_links.${column}`)} = any (${ids}::bigint[])`)
    .orderBy('labels.title')
    .execute();
  return Map.groupBy(rows, (row) => row.subject_id);
};
