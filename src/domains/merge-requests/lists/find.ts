import { type RawBuilder, sql } from 'kysely';
import { findListed, type ListPlace, type Prefix } from '#domains/planning/lists.ts';
import { mergeRequestIsVisible } from '#domains/planning/visibility.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { driversOf, stateDriver } from './drivers.ts';
import { conditions, type MergeRequestFilter } from './filter.ts';
import { type ListedRow, orderOf } from './order.ts';

/** Lists merge requests, with these columns of each (decision 41). The caller checks access to a single project. */
export const findMergeRequests = (
  ctx: Context,
  filter: MergeRequestFilter,
  place: ListPlace,
  columns: RawBuilder<unknown>,
): List<ListedRow> => {
  const { actor } = ctx;
  const { project_id } = place;
  const order = orderOf(filter);
  const drivers = driversOf(actor, filter, place);
  const prefix: Prefix[] = [];
  if (project_id !== undefined)
    prefix.push({ column: 'project_id', value: sql`${project_id}::bigint`, isCondition: false });
  if (order.column === 'created_at' && filter.state && filter.state !== 'all')
    prefix.push({ column: 'state', value: sql`${filter.state}::text`, isCondition: true });
  return findListed(ctx, {
    table: 'merge_requests',
    place,
    order,
    conditions: conditions(actor, filter),
    ranges: [],
    visible: project_id === undefined ? { project: mergeRequestIsVisible(actor) } : null,
    prefix,
    columns,
    drivers: [...drivers, ...stateDriver(filter, place)],
    countDrivers: isByAuthor(filter) ? 0 : drivers.length,
    filter,
  });
};

/** Returns true if an index on merge requests alone has what the list selects: then a count needs no driver. */
const isByAuthor = ({ author, scope, state, order_by, sort, ...others }: MergeRequestFilter): boolean =>
  (author != null || scope === 'created_by_me') && Object.values(others).every((value) => value == null);
