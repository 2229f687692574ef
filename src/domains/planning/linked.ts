import { type RawBuilder, sql } from 'kysely';

// Each label and milestone is followed by its own index. `offset 0` keeps Postgres from reading all links or all rows
// instead, because it cannot know which label is rare.

type Table = 'issues' | 'merge_requests';

/** Selects the ids of the rows with a label `l` that fits. */
export const withLabel = (table: Table, fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.id from labels l cross join lateral ${linksOf(table)} held where ${fits}`;

/** Selects the ids of the rows with a milestone `m` that fits. */
export const withMilestone = (table: Table, fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.id from milestones m cross join lateral ${rowsOf(table)} held where ${fits}`;

/**
 * The same as `withMilestone` for a group with everything below it. Each place is asked for its milestones, because every
 * project of the hub may have one of that title.
 */
export const withMilestoneBelow = (
  table: Table,
  groupId: RawBuilder<unknown>,
  fits: RawBuilder<unknown>,
): RawBuilder<unknown> =>
  sql`select held.id from (${below(groupId, sql`milestones m`, sql.ref('m'), fits)}) m cross join lateral ${rowsOf(table)} held`;

/** The same as `withLabel` for a group with everything below it. */
export const withLabelBelow = (
  table: Table,
  groupId: RawBuilder<unknown>,
  fits: RawBuilder<unknown>,
): RawBuilder<unknown> =>
  sql`select held.id from (${below(groupId, sql`labels l`, sql.ref('l'), fits)}) l cross join lateral ${linksOf(table)} held`;

const linksOf = (table: Table): RawBuilder<unknown> => {
  const id = sql.ref(table === 'issues' ? 'k.issue_id' : 'k.merge_request_id');
  return sql`(select ${id} as id from label_links k where k.label_id = l.id and ${id} is not null offset 0)`;
};

const rowsOf = (table: Table): RawBuilder<unknown> =>
  sql`(select r.id from ${sql.table(table)} r where r.milestone_id = m.id offset 0)`;

/** Requires that the row with this alias, a label or milestone, is of the project or of a group above it. */
export const ofPlace =
  (project_id: number | undefined) =>
  (alias: string): RawBuilder<unknown> =>
    project_id === undefined
      ? sql`true`
      : sql`(${sql.ref(`${alias}.project_id`)} = ${project_id} or ${sql.ref(`${alias}.namespace_id`)} = any (
          (select n.traversal_ids from projects p join namespaces n on n.id = p.namespace_id where p.id = ${project_id})::bigint[]))`;

/** Selects the ids of what fits in the projects below a group, in the group, and in the groups below and above it. */
const below = (
  groupId: RawBuilder<unknown>,
  from: RawBuilder<unknown>,
  row: RawBuilder<unknown>,
  fits: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`
  with places as (select n.id, n.traversal_ids from namespaces n where n.traversal_ids @> array[${groupId}])
  select of_projects.id from places join projects p on p.namespace_id = places.id cross join lateral (
    select ${row}.id from ${from} where ${row}.project_id = p.id and ${fits} offset 0) of_projects
  union all
  select of_groups.id from (select distinct unnest(traversal_ids) as id from places) g cross join lateral (
    select ${row}.id from ${from} where ${row}.namespace_id = g.id and ${fits} offset 0) of_groups`;
