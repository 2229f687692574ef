import type { RawBuilder } from 'kysely';

/** Where a list looks: in one project, or in all that the caller can see. */
export interface ListPlace {
  readonly project_id?: number | undefined;
  /** A group with everything below it. */
  readonly group_id?: number | undefined;
  /** Leaves out the groups below `group_id`. */
  readonly directly?: boolean | undefined;
  readonly non_archived?: boolean | undefined;
}

/** A row of a list, with the computed part of its sort key if there is one. */
export interface Listed {
  readonly id: number;
  readonly sort_0?: string | number | null;
  readonly sort_1?: string | number | null;
}

export interface Key<Row> {
  /** Over the row of the table. Never null, so that a cursor is a single row comparison. */
  readonly by: RawBuilder<unknown>;
  readonly of: (row: Row) => string | number | null;
}

/** A computed order has keys of their own only for few rows: those with a due date, a priority or votes. */
export interface Ranked {
  /** Selects the ids of these, by the labels or milestones of the project if the list is of one. */
  readonly ids: (project_id: number | undefined) => RawBuilder<unknown>;
  readonly others: readonly { readonly value: string | number; readonly as: 'date' | 'integer' | 'bigint' }[];
}

export type OrderColumn =
  | 'created_at'
  | 'updated_at'
  | 'title'
  | 'merged_at'
  | 'closed_at'
  | 'due_date'
  | 'weight'
  | 'relative_position'
  | 'id';

/** How a list is sorted: by these keys and then by id, all in one direction. */
export interface Order<Row> {
  /** None for an order by id alone. */
  readonly keys: readonly Key<Row>[];
  /** The column whose index has the rows in this order. Null if each row's place must be computed. */
  readonly column: OrderColumn | null;
  /** For a computed place: the rows that differ from all others, and the keys of the others. */
  readonly ranked: Ranked | null;
  /** The key of rows where the column is not set: they come last and are not in the index. Null if the index has all rows. */
  readonly missing: string | number | null;
  readonly ascending: boolean;
}

/** A column before the one of the order in its index, with the value that it has in all rows of the list. */
export interface Prefix {
  readonly column: 'project_id' | 'state' | 'author_id' | 'iid';
  readonly value: RawBuilder<unknown>;
  /** Whether one of the conditions of the list requires the same. */
  readonly isCondition: boolean;
}

/** Issues and merge requests share lists, drivers and conditions. */
export type ListedTable = 'issues' | 'merge_requests';

/** A way to find the matches of a list from an index. */
export interface Driver {
  /** Selects ids. All matches are among them. */
  readonly ids: RawBuilder<unknown>;
  /** The conditions that its rows still have to meet, if it makes some of them true. Defaults to all of them. */
  readonly conditions?: readonly RawBuilder<boolean>[];
  /** Whether it reads all of its rows before the first one, so that trying it costs as much as they are many. */
  readonly readsAll?: boolean;
}

/** The list that a statement reads, of one of the tables that share these orders and places. */
export interface Wanted<Row = Listed> {
  readonly table: ListedTable;
  readonly place: ListPlace;
  readonly order: Order<Row>;
  /** On the row of the table alone. */
  readonly conditions: readonly RawBuilder<boolean>[];
  /** Those of the conditions that its index can check, because they are on the column of the order. */
  readonly ranges: readonly RawBuilder<boolean>[];
  /**
   * Requires that the caller can see the row: by the row `projects` alone, and by both rows. Null if the caller can see
   * the project of the list.
   */
  readonly visible: { readonly project: RawBuilder<boolean>; readonly row?: RawBuilder<boolean> } | null;
  /** The index of the order begins with these. */
  readonly prefix: readonly Prefix[];
}
