import { type RawBuilder, sql } from 'kysely';
import type { ListedTable } from './lists/model.ts';

/** An issue or merge request by its project and its number there. */
export interface Numbered {
  readonly project_id: number;
  readonly iid: number;
}

/** Requires that the row is one of the wanted ones. */
export const isNumbered = (table: ListedTable, wanted: readonly Numbered[]): RawBuilder<boolean> =>
  sql<boolean>`(${sql.ref(`${table}.project_id`)}, ${sql.ref(`${table}.iid`)}) in (
    select * from unnest(${wanted.map(({ project_id }) => project_id)}::bigint[], ${wanted.map(({ iid }) => iid)}::bigint[]))`;
