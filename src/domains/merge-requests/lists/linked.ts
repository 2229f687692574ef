import { type RawBuilder, sql } from 'kysely';

// Each label and milestone is followed by its own index. `offset 0` keeps Postgres from reading all links or all merge
// requests instead, because it cannot know which label is rare.

/** Selects the ids of the merge requests with a label `l` that fits. */
export const withLabel = (fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.merge_request_id as id from labels l cross join lateral (
      select k.merge_request_id from label_links k where k.label_id = l.id and k.merge_request_id is not null offset 0) held
    where ${fits}`;

/** Selects the ids of the merge requests with a milestone `m` that fits. */
export const withMilestone = (fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.id from milestones m cross join lateral (
      select mr.id from merge_requests mr where mr.milestone_id = m.id offset 0) held
    where ${fits}`;

/**
 * The same as `withMilestone` for a group with everything below it. Each place is asked for its milestones, because every
 * project of the hub may have one of that title.
 */
export const withMilestoneBelow = (groupId: RawBuilder<unknown>, fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.id from (${below(groupId, sql`milestones m`, sql.ref('m'), fits)}) m cross join lateral (
      select mr.id from merge_requests mr where mr.milestone_id = m.id offset 0) held`;

/** The same as `withLabel` for a group with everything below it. */
export const withLabelBelow = (groupId: RawBuilder<unknown>, fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.merge_request_id as id from (${below(groupId, sql`labels l`, sql.ref('l'), fits)}) l cross join lateral (
      select k.merge_request_id from label_links k where k.label_id = l.id and k.merge_request_id is not null offset 0) held`;

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
