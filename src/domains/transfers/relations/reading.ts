import { type RawBuilder, sql } from 'kysely';
import { type Column, selectColumns } from './columns.ts';
import type { ChildReading, RelationReading } from './relation.ts';

/** Reads a table of rows that belong to the project, with the alias `t`. */
export const readTable = (
  table: string,
  columns: readonly Column[],
  children: readonly ChildReading[] = [],
  where = 't.project_id = $project',
): RelationReading => ({
  count: (projectId) =>
    sql<{ count: number }>`select count(*) as count from ${sql.raw(table)} t where ${withProject(where, projectId)}`,
  ids: (projectId) =>
    sql<{ id: number }>`select t.id from ${sql.raw(table)} t where ${withProject(where, projectId)} order by t.id`,
  page: (ids) => sql<{ id: number; line: string }>`
    select t.id, row_to_json(line)::text as line
    from ${sql.raw(table)} t, lateral (select ${sql.raw(selectColumns(columns))}) line
    where t.id = any (${ids}::bigint[]) order by t.id`,
  children,
  keys: [...columns.map(({ key }) => key), ...children.map(({ key }) => key)],
});

/**
 * Reads the children of a page of parents as lists. `from` is the table with the alias `t`, plus joins. `parent` is the
 * column with the parent's id. `owner` is the table of the parents.
 */
export const childList = (
  key: string,
  options: {
    readonly from: string;
    readonly parent: string;
    readonly owner: string;
    readonly columns: readonly Column[];
    readonly orderBy?: string;
    readonly where?: string;
  },
): ChildReading => {
  const { from, parent, owner, columns, orderBy = 't.id', where = 'true' } = options;
  return {
    key,
    none: '[]',
    any: (projectId) => sql<{ any: boolean }>`
      select exists (select from ${sql.raw(from)} join ${sql.raw(owner)} parent on parent.id = ${sql.raw(parent)}
        where parent.project_id = ${projectId} and ${sql.raw(where)}) as any`,
    of: (ids) => sql<{ parent_id: number; json: string }>`
      select ${sql.raw(parent)} as parent_id,
        '[' || string_agg(row_to_json(child)::text, ',' order by ${sql.raw(orderBy)}) || ']' as json
      from ${sql.raw(from)}, lateral (select ${sql.raw(selectColumns(columns))}) child
      where ${sql.raw(parent)} = any (${ids}::bigint[]) and ${sql.raw(where)}
      group by 1`,
  };
};

/** Reads a child that occurs at most once, as an object. */
export const childObject = (
  key: string,
  options: {
    readonly from: string;
    readonly parent: string;
    readonly owner: string;
    readonly columns: readonly Column[];
    readonly where?: string;
  },
): ChildReading => {
  const { from, parent, columns, where = 'true' } = options;
  return {
    ...childList(key, options),
    none: null,
    of: (ids) => sql<{ parent_id: number; json: string }>`
      select ${sql.raw(parent)} as parent_id, row_to_json(child)::text as json
      from ${sql.raw(from)}, lateral (select ${sql.raw(selectColumns(columns))}) child
      where ${sql.raw(parent)} = any (${ids}::bigint[]) and ${sql.raw(where)}`,
  };
};

/** SQL: a nested list within a child, over the alias `n`. Columns are given as `n.x as "x"`. */
export const nestedList = (from: string, columns: string, where: string, orderBy = 'n.id'): string =>
  `coalesce((select '[' || string_agg(row_to_json(item)::text, ',' order by ${orderBy}) || ']' from ${from}, lateral (select ${columns}) item where ${where}), '[]')::json`;

/** SQL: a nested object over the alias `n`. */
export const nestedObject = (from: string, columns: string, where: string): string =>
  `(select row_to_json(item) from ${from}, lateral (select ${columns}) item where ${where})`;

const withProject = (where: string, projectId: number): RawBuilder<unknown> => {
  const parts = where.split('$project').map((part) => sql.raw(part));
  return sql.join(parts, sql`${projectId}`);
};
