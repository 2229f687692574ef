import { type RawBuilder, sql } from 'kysely';
import { withLabel, withMilestone } from '#domains/planning/linked.ts';
import type { Listed, Order, Ranked } from '#domains/planning/lists.ts';
import type { MergeRequestRow } from '../queries.ts';
import type { MergeRequestFilter } from './filter.ts';

/** A row of a list, with the computed part of its sort key if there is one. */
export interface ListedRow extends MergeRequestRow, Omit<Listed, 'id'> {}

type Sorting = Order<ListedRow> & {
  readonly column: 'created_at' | 'updated_at' | 'title' | 'merged_at' | 'closed_at' | null;
};

/** A key, and its value where there is nothing to compute it from. */
interface Computed {
  readonly key: RawBuilder<unknown>;
  readonly none: Ranked['others'][number];
}

const withDueDate: Ranked['ids'] = (project_id) =>
  withMilestone('merge_requests', { project_id }, sql`m.due_date is not null`);
const withPriority: Ranked['ids'] = (project_id) =>
  withLabel('merge_requests', { project_id }, sql`l.priority is not null`);
const withVotes: Ranked['ids'] = () => sql`select e.merge_request_id as id from award_emoji e
  where e.name = 'thumbsup' and e.merge_request_id is not null`;

/** Missing values sort last in both directions. */
export const orderOf = ({ order_by, sort }: MergeRequestFilter): Sorting => {
  const ascending = sort === 'asc';
  const last = <T>(largest: T, least: T): T => (ascending ? largest : least);
  const lastTime = last('infinity', '-infinity');
  const computed = (ids: Ranked['ids'], ...by: readonly Computed[]): Sorting => ({
    keys: by.map(({ key }, i) => ({ by: key, of: (row) => (i === 0 ? row.sort_0 : row.sort_1) ?? null })),
    column: null,
    ranked: { ids, others: by.map(({ none }) => none) },
    missing: null,
    ascending,
  });
  const due: Computed = {
    key: sql`coalesce((select m.due_date from milestones m where m.id = merge_requests.milestone_id), ${sql.lit(lastTime)}::date)`,
    none: { value: lastTime, as: 'date' },
  };
  const lastPriority = last(2_147_483_647, -1);
  const label: Computed = {
    key: sql`coalesce((select min(l.priority) from label_links k join labels l on l.id = k.label_id
      where k.merge_request_id = merge_requests.id), ${sql.lit(lastPriority)})`,
    none: { value: lastPriority, as: 'integer' },
  };
  const votes: Computed = {
    key: sql`(select count(*) from award_emoji e where e.merge_request_id = merge_requests.id and e.name = 'thumbsup')`,
    none: { value: 0, as: 'bigint' },
  };
  switch (order_by) {
    case 'merged_at':
    case 'closed_at':
      return {
        keys: [
          {
            by: sql`coalesce(${sql.ref(`merge_requests.${order_by}`)}, ${sql.lit(lastTime)}::timestamptz)`,
            of: (row) => row[order_by] ?? lastTime,
          },
        ],
        column: order_by,
        ranked: null,
        missing: lastTime,
        ascending,
      };
    case 'label_priority':
      return computed(withPriority, label);
    case 'milestone_due':
      return computed(withDueDate, due);
    case 'priority':
      return computed(
        (project_id) => sql`${withDueDate(project_id)} union all ${withPriority(project_id)}`,
        due,
        label,
      );
    case 'popularity':
      return computed(withVotes, votes);
    default: {
      const column = order_by ?? 'created_at';
      return {
        keys: [{ by: sql.ref(`merge_requests.${column}`), of: (row) => row[column] }],
        column,
        ranked: null,
        missing: null,
        ascending,
      };
    }
  }
};
