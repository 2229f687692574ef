import { type RawBuilder, sql } from 'kysely';
import type { ListedTable, ListPlace } from './lists/model.ts';

// Each label and milestone is followed by its own index. `offset 0` keeps Postgres from reading all links or all rows
// instead, because it cannot know which label is rare.

type Place = Pick<ListPlace, 'project_id' | 'group_id'>;

/** Selects the ids of the rows with a label `l` of the place that fits. */
export const withLabel = (table: ListedTable, place: Place, fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.id from (${ofPlace(place, sql`labels l`, 'l', fits)}) l cross join lateral ${linksOf(table)} held`;

/** Selects the ids of the rows with a milestone `m` of the place that fits. */
export const withMilestone = (table: ListedTable, place: Place, fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.id from (${ofPlace(place, sql`milestones m`, 'm', fits)}) m cross join lateral ${rowsOf(table)} held`;

const linksOf = (table: ListedTable): RawBuilder<unknown> => {
  const id = sql.ref(table === 'issues' ? 'k.issue_id' : 'k.merge_request_id');
  return sql`(select ${id} as id from label_links k where k.label_id = l.id and ${id} is not null offset 0)`;
};

const rowsOf = (table: ListedTable): RawBuilder<unknown> =>
  sql`(select r.id from ${sql.table(table)} r where r.milestone_id = m.id offset 0)`;

/** Selects the ids of the labels or milestones that fit, and that the project or group has, or any. */
const ofPlace = (
  { project_id, group_id }: Place,
  from: RawBuilder<unknown>,
  alias: string,
  fits: RawBuilder<unknown>,
): RawBuilder<unknown> => {
  const [id, project, group] = [
    sql.ref(`${alias}.id`),
    sql.ref(`${alias}.project_id`),
    sql.ref(`${alias}.namespace_id`),
  ];
  if (project_id !== undefined) {
    return sql`select ${id} from ${from} where ${fits} and (${project} = ${project_id} or ${group} = any (
      (select n.traversal_ids from projects p join namespaces n on n.id = p.namespace_id where p.id = ${project_id})::bigint[]))`;
  }
  if (group_id === undefined) return sql`select ${id} from ${from} where ${fits}`;
  // Each place below the group is asked for its own, because every project of the hub may have one of that title.
  return sql`
    with places as (select n.id, n.traversal_ids from namespaces n where n.traversal_ids @> array[${group_id}::bigint])
    select of_projects.id from places join projects p on p.namespace_id = places.id cross join lateral (
      select ${id} from ${from} where ${project} = p.id and ${fits} offset 0) of_projects
    union all
    select of_groups.id from (select distinct unnest(traversal_ids) as id from places) g cross join lateral (
      select ${id} from ${from} where ${group} = g.id and ${fits} offset 0) of_groups`;
};
