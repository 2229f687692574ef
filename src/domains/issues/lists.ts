import { type RawBuilder, sql } from 'kysely';
import type { GroupRow } from '#domains/groups/queries.ts';
import { isOwnScope } from '#domains/planning/list-filter.ts';
import { findListed, isBelowGroup, type ListPlace, type Order, type Prefix } from '#domains/planning/lists.ts';
import { issueIsVisibleIn, issueVisibility } from '#domains/planning/visibility.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { aloneOrBatched, type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOfRows, type SortKey } from '#platform/db/list.ts';
import { unauthenticated } from '#platform/errors.ts';
import { driversOf, stateDriver } from './lists/drivers.ts';
import { conditions, type IssueFilter, userNamed, within } from './lists/filter.ts';
import type { IssueRow } from './model.ts';

/** The scope of a list: one project, everything below a group, or everything that the caller can see. */
export type IssueScope =
  | { readonly project: ProjectRow }
  | { readonly group: Pick<GroupRow, 'id'>; readonly direct?: boolean | undefined }
  | 'everywhere';

/**
 * Lists the issues in the scope that the caller can see, newest first by default.
 *
 * @throws DomainError as `requireAbility` if the caller may not read issues of the project; `unauthenticated` for
 *   anonymous callers who ask for their own issues
 */
export const listIssues = (ctx: Context, scope: IssueScope, filter: IssueFilter = {}): List<IssueRow> => {
  if (scope === 'everywhere') {
    if (isOwnScope(filter.scope) && ctx.actor.userId === null) throw unauthenticated();
    return issuesIn(ctx, filter, {});
  }
  if ('group' in scope) return issuesIn(ctx, filter, { group_id: scope.group.id, directly: scope.direct });
  const { project } = scope;
  requireAbility(ctx, project, 'read_issue');
  const visible = can(ctx, project, 'read_confidential_issue') ? [] : [issueIsVisibleIn(ctx, project)];
  return issuesIn(ctx, filter, { project_id: project.id }, visible);
};

/** Lists the issues of the milestone that the caller can see. The caller checks access to the milestone. */
export const listIssuesOfMilestone = (
  ctx: Context,
  { id, project_id }: { readonly id: number; readonly project_id: number | null },
  filter: IssueFilter,
): List<IssueRow> => issuesIn(ctx, { ...filter, milestone_id: id }, project_id === null ? {} : { project_id });

type ParentKind = 'project' | 'group' | 'group_alone';

/** Lists the issues of many projects or groups at once. */
export const listIssuesBelow = (ctx: Context, kind: ParentKind, filter: IssueFilter): BatchedList<IssueRow> => {
  const { project, row } = issueVisibility(ctx.actor);
  let query = ctx.db
    .selectFrom('issues')
    .innerJoin('projects', 'projects.id', 'issues.project_id')
    .selectAll('issues')
    .where(project);
  for (const condition of [...conditions(ctx.actor, filter), ...(row ? [row] : [])]) query = query.where(condition);
  const below = (parentId: RawBuilder<number>) =>
    kind === 'project'
      ? query.where('issues.project_id', '=', parentId)
      : query.where(isBelowGroup(parentId, kind === 'group'));
  const byId: SortKey<IssueRow> = { by: sql.ref('issues.id'), of: (row) => row.id };
  const many = batchedListOf(ctx.db, below, [...orderOf(filter).keys, byId], filter.sort ?? 'desc');
  // A single parent is an ordinary list, which may be too long to read as a whole.
  return aloneOrBatched(many, (parent) =>
    issuesIn(
      ctx,
      filter,
      kind === 'project' ? { project_id: parent } : { group_id: parent, directly: kind === 'group_alone' },
    ),
  );
};

/** Lists issues (decision 41). `visible` says which of them the caller sees in a project whose issues they can read. */
const issuesIn = (
  ctx: Context,
  filter: IssueFilter,
  place: ListPlace,
  visible: readonly RawBuilder<boolean>[] | null = null,
): List<IssueRow> => {
  const { actor } = ctx;
  // Anonymous callers see no confidential issues.
  if (filter.confidential && actor.userId === null && !actor.isAdmin) return listOfRows<IssueRow>([], ({ id }) => id);
  const order = orderOf(filter);
  const conditionsOf = (of: IssueFilter) => [...conditions(actor, of), ...(visible ?? [])];
  const drivers = driversOf(actor, filter, place, conditionsOf);
  const { column } = order;
  return findListed(ctx, {
    table: 'issues',
    place,
    order,
    conditions: conditionsOf(filter),
    ranges: column === 'created_at' || column === 'updated_at' ? within(filter, column) : [],
    visible: visible ? null : issueVisibility(actor),
    prefix: prefixOf(ctx, filter, place, order),
    columns: sql`issues.*`,
    drivers: [...drivers, ...stateDriver(filter, place)],
    countDrivers: drivers.length,
    filter,
  });
};

const prefixOf = (
  { actor }: Context,
  filter: IssueFilter,
  { project_id }: ListPlace,
  { column }: Order<IssueRow>,
): Prefix[] => {
  if (project_id !== undefined) {
    const prefix: Prefix[] = [{ column: 'project_id', value: sql`${project_id}::bigint`, isCondition: false }];
    if (column === 'created_at' && filter.state)
      prefix.push({ column: 'state', value: sql`${filter.state}::text`, isCondition: true });
    return prefix;
  }
  const [iid, ...others] = filter.iids ?? [];
  if (iid !== undefined && others.length === 0 && column === 'created_at')
    return [{ column: 'iid', value: sql`${iid}::bigint`, isCondition: true }];
  if (column !== 'created_at' && column !== 'updated_at') return [];
  const author =
    filter.scope === 'created_by_me'
      ? sql`${actor.userId ?? 0}::bigint`
      : filter.author_id != null
        ? sql`${filter.author_id}::bigint`
        : filter.author_username != null
          ? userNamed(filter.author_username)
          : null;
  return author ? [{ column: 'author_id', value: author, isCondition: true }] : [];
};

/** Missing values sort last in both directions. */
const orderOf = ({ order_by, sort }: IssueFilter): Order<IssueRow> => {
  const column = order_by ?? 'created_at';
  const ascending = sort === 'asc';
  const by = sql.ref(`issues.${column}`);
  if (column === 'created_at' || column === 'updated_at' || column === 'title')
    return { keys: [{ by, of: (row) => row[column] }], column, ranked: null, missing: null, ascending };
  const isDate = column === 'due_date';
  // Beyond all integers, because a weight may be the largest of them.
  const missing = isDate ? (ascending ? 'infinity' : '-infinity') : ascending ? 2_147_483_648 : -2_147_483_649;
  const type = sql.raw(isDate ? 'date' : 'bigint');
  return {
    keys: [{ by: sql`coalesce(${by}, (${sql.lit(missing)})::${type})`, of: (row) => row[column] ?? missing }],
    column,
    ranked: null,
    missing,
    ascending,
  };
};
