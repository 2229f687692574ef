import { type RawBuilder, sql } from 'kysely';
import { isOwnScope } from '#domains/planning/list-filter.ts';
import { isBelowGroup, type ListPlace } from '#domains/planning/lists.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { aloneOrBatched, type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import type { List, SortKey } from '#platform/db/list.ts';
import { unauthenticated } from '#platform/errors.ts';
import type { MergeRequestFilter } from './lists/filter.ts';
import { findMergeRequests } from './lists/find.ts';
import { type ListedRow, orderOf } from './lists/order.ts';
import {
  ALL_COLUMNS,
  type MergeRequestColumn,
  type MergeRequestRow,
  matching,
  PROJECT_PATH,
  STORED,
  visible,
} from './queries.ts';

/** Lists the merge requests of the project. @throws as `requireAbility` if the caller cannot see them */
export const listMergeRequests = (
  ctx: Context,
  project: ProjectRow,
  filter: MergeRequestFilter = {},
): List<MergeRequestRow> => {
  requireAbility(ctx, project, 'read_merge_request');
  return findMergeRequests(ctx, filter, { project_id: project.id }, selected(ALL_COLUMNS));
};

/**
 * Lists the merge requests that the caller can see, in all projects or in all projects below a group.
 *
 * @throws DomainError `unauthenticated` for anonymous callers who ask for their own merge requests in all projects
 */
export const listVisibleMergeRequests = (
  ctx: Context,
  {
    group_id,
    non_archived,
    ...filter
  }: MergeRequestFilter & {
    readonly group_id?: number | undefined;
    readonly non_archived?: boolean | undefined;
  } = {},
): List<MergeRequestRow> => {
  if (isOwnScope(filter.scope) && group_id === undefined && ctx.actor.userId === null) throw unauthenticated();
  return findMergeRequests(ctx, filter, { group_id, non_archived }, selected(ALL_COLUMNS));
};

const selected = (columns: readonly MergeRequestColumn[]): RawBuilder<unknown> =>
  sql.join([
    ...STORED.filter((column) => columns.includes(column)).map((column) => sql.ref(`merge_requests.${column}`)),
    sql`${columns.includes('project_path') ? PROJECT_PATH : sql`''`} as project_path`,
  ]);

/**
 * Lists merge requests below many parents at once. For projects the caller checks `read_merge_request`. For groups and
 * users only visible merge requests are listed. With `wanted`, only these columns of each row are read and may be used.
 */
export const listMergeRequestsBelow = (
  ctx: Context,
  kind: 'project' | 'group' | 'subgroups' | 'author' | 'assignee' | 'reviewer',
  filter: MergeRequestFilter,
  wanted: readonly MergeRequestColumn[] = ALL_COLUMNS,
): BatchedList<ListedRow> => {
  const order = orderOf(filter);
  // Cursors contain the sort keys.
  const columns = [...wanted, 'id', ...(order.column ? [order.column] : [])] as const;
  const byId: SortKey<ListedRow> = { by: sql.ref('merge_requests.id'), of: (row) => row.id };
  let query = matching(ctx, filter, columns);
  if (order.column === null) {
    for (const [i, { by }] of order.keys.entries()) query = query.select(by.as(`sort_${i}`));
  }
  const below = (parentId: RawBuilder<number>) => {
    switch (kind) {
      case 'project':
        return query.where('merge_requests.project_id', '=', parentId);
      case 'group':
      case 'subgroups':
        return visible(ctx, query).where(isBelowGroup(parentId, kind === 'subgroups'));
      case 'author':
        return visible(ctx, query).where('merge_requests.author_id', '=', parentId);
      default:
        return visible(ctx, query).where(sql<boolean>`merge_requests.id in (select held.merge_request_id
          from ${sql.table(`merge_request_${kind}s`)} held where held.user_id = ${parentId})`);
    }
  };
  // The most common lists: all merge requests of a project in the order of an index, without values from this request.
  const isPlain =
    kind === 'project' &&
    order.column !== null &&
    order.missing === null &&
    Object.entries(filter).every(([name, value]) => value == null || ORDER.has(name));
  const shape = `merge_requests|${filter.order_by}|${columns.join()}`;
  const many = batchedListOf(
    ctx.db,
    below,
    [...order.keys, byId],
    filter.sort ?? 'desc',
    isPlain ? { compiled: { ctx, shape } } : {},
  );
  if (isPlain) return many;
  // A single parent is an ordinary list, which may be too long to read as a whole.
  return aloneOrBatched(many, (parent) => aloneBelow(ctx, kind, filter, columns, parent));
};

/** Returns the list below one parent, or null if its filter says something about the parent too. */
const aloneBelow = (
  ctx: Context,
  kind: Parameters<typeof listMergeRequestsBelow>[1],
  filter: MergeRequestFilter,
  columns: readonly MergeRequestColumn[],
  parent: number,
): List<ListedRow> | null => {
  const list = (of: MergeRequestFilter, place: ListPlace = {}) => findMergeRequests(ctx, of, place, selected(columns));
  switch (kind) {
    case 'project':
      return list(filter, { project_id: parent });
    case 'group':
    case 'subgroups':
      return list(filter, { group_id: parent, directly: kind === 'group' });
    case 'author':
      return filter.author ? null : list({ ...filter, author: { id: parent } });
    case 'assignee':
      return filter.assignees ? null : list({ ...filter, assignees: [{ id: parent }] });
    default:
      return filter.reviewer ? null : list({ ...filter, reviewer: { id: parent } });
  }
};

const ORDER: ReadonlySet<string> = new Set<keyof MergeRequestFilter>(['order_by', 'sort']);
