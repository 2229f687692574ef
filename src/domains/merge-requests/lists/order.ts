import { type RawBuilder, sql } from 'kysely';
import type { CursorValues } from '#platform/cursor.ts';
import type { MergeRequestRow } from '../queries.ts';
import type { MergeRequestFilter } from './filter.ts';
import { withLabel, withMilestone } from './linked.ts';

/** A row of a list, with the computed part of its sort key if there is one. */
export interface ListedRow extends MergeRequestRow {
  readonly sort_0?: string | number | null;
  readonly sort_1?: string | number | null;
}

interface Key {
  /** Over the row `merge_requests`. Never null, so that a cursor is a single row comparison. */
  readonly by: RawBuilder<unknown>;
  readonly of: (row: ListedRow) => string | number | null;
}

/** A computed order has keys of their own only for few merge requests: those with a due date, a priority or votes. */
interface Ranked {
  /** Selects the ids of these. `ofPlace` limits the row with this alias, a label or milestone, to the place of the list. */
  readonly ids: (ofPlace: (alias: string) => RawBuilder<unknown>) => RawBuilder<unknown>;
  readonly others: readonly { readonly value: string | number; readonly as: 'date' | 'integer' | 'bigint' }[];
}

/** How a list is sorted: by these keys and then by id, all in one direction. */
export interface Order {
  readonly keys: readonly Key[];
  /** The column whose index has the rows in this order. Null if each row's place must be computed. */
  readonly column: 'created_at' | 'updated_at' | 'title' | 'merged_at' | 'closed_at' | null;
  /** For a computed place: the merge requests that differ from all others, and the keys of the others. */
  readonly ranked: Ranked | null;
  /** The key of rows where the column is not set: they come last and are not in the index. Null if the index has all rows. */
  readonly missing: string | null;
  readonly ascending: boolean;
}

/** A key, and its value where there is nothing to compute it from. */
interface Computed {
  readonly key: RawBuilder<unknown>;
  readonly none: Ranked['others'][number];
}

const withDueDate: Ranked['ids'] = (ofPlace) => withMilestone(sql`m.due_date is not null and ${ofPlace('m')}`);
const withPriority: Ranked['ids'] = (ofPlace) => withLabel(sql`l.priority is not null and ${ofPlace('l')}`);
const withVotes: Ranked['ids'] = () => sql`select e.merge_request_id as id from award_emoji e
  where e.name = 'thumbsup' and e.merge_request_id is not null`;

/** Missing values sort last in both directions. */
export const orderOf = ({ order_by, sort }: MergeRequestFilter): Order => {
  const ascending = sort === 'asc';
  const last = <T>(largest: T, least: T): T => (ascending ? largest : least);
  const lastTime = last('infinity', '-infinity');
  const computed = (ids: Ranked['ids'], ...by: readonly Computed[]): Order => ({
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
      return computed((ofPlace) => sql`${withDueDate(ofPlace)} union all ${withPriority(ofPlace)}`, due, label);
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

export const cursorOf = ({ keys }: Order, row: ListedRow): CursorValues => [...keys.map((key) => key.of(row)), row.id];
