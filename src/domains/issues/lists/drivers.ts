import { type RawBuilder, sql } from 'kysely';
import { PLANNER } from '#domains/access/model.ts';
import { projectsHeld } from '#domains/access/policy.ts';
import { withLabel, withMilestone } from '#domains/planning/linked.ts';
import type { Driver, ListPlace } from '#domains/planning/lists.ts';
import type { Actor } from '#platform/context.ts';
import { type IssueFilter, type Named, userNamed, usersNamed, within } from './filter.ts';

/**
 * Returns the ways to find the matches of a filter from an index, most selective first. Empty if no condition of the
 * filter has an index that finds its rows. `conditionsOf` returns the conditions of a filter in this place.
 */
export const driversOf = (
  actor: Actor,
  filter: IssueFilter,
  place: ListPlace,
  conditionsOf: (filter: IssueFilter) => readonly RawBuilder<boolean>[],
): readonly Driver[] => {
  const { project_id, group_id, directly } = place;
  const drivers: Driver[] = [];
  const add = (ids: RawBuilder<unknown>, rest: IssueFilter = filter) =>
    drivers.push({ ids, conditions: conditionsOf(rest) });
  const group = project_id === undefined && group_id !== undefined ? sql`${group_id}::bigint` : null;
  const rows = (condition: RawBuilder<unknown>, rest?: IssueFilter) =>
    add(sql`select issues.id from issues where ${condition}`, rest);
  const assignedTo = (user: RawBuilder<unknown>, rest: IssueFilter) =>
    add(sql`select a.issue_id as id from issue_assignees a where a.user_id = ${user}`, rest);

  // Each number is looked up by itself: for several, Postgres would read all issues of the project.
  const numbered = (
    place: RawBuilder<unknown>,
  ) => sql`unnest(${filter.iids}::bigint[]) wanted (iid) cross join lateral (
    select i.id from issues i where ${place} and i.iid = wanted.iid offset 0) held`;
  if (filter.iids && group === null) {
    const ofProject = project_id === undefined ? sql`true` : sql`i.project_id = ${project_id}`;
    drivers.push({ ids: sql`select held.id from ${numbered(ofProject)}` });
  }
  if (filter.iids && group !== null) {
    const within = directly ? sql`n.id = ${group}` : sql`n.traversal_ids @> array[${group}]`;
    const ids = sql`select held.id from namespaces n join projects p on p.namespace_id = n.id
      cross join ${numbered(sql`i.project_id = p.id`)} where ${within}`;
    drivers.push({ ids });
  }
  const me = sql`${actor.userId ?? 0}`;
  if (filter.scope === 'assigned_to_me') assignedTo(me, { ...filter, scope: null });
  if (filter.scope === 'created_by_me') rows(sql`issues.author_id = ${me}`);
  if (typeof filter.assignee_id === 'number') assignedTo(sql`${filter.assignee_id}`, { ...filter, assignee_id: null });
  if (filter.assignee_usernames)
    assignedTo(sql`any (${usersNamed(filter.assignee_usernames)})`, { ...filter, assignee_usernames: null });
  if (filter.author_id != null) rows(sql`issues.author_id = ${filter.author_id}`);
  if (filter.author_username != null) rows(sql`issues.author_id = ${userNamed(filter.author_username)}`);
  if (filter.my_reaction_emoji && filter.my_reaction_emoji !== 'none')
    add(sql`select e.issue_id as id from award_emoji e where e.user_id = ${me} and e.issue_id is not null`);
  if (filter.milestone_id != null) rows(sql`issues.milestone_id = ${filter.milestone_id}`);
  const milestones = namesOf(filter.milestones);
  if (milestones.length > 0) {
    const titled = sql`m.title = any (${milestones}::text[])`;
    add(withMilestone('issues', place, titled), { ...filter, milestones: null });
  }
  // Found by the first title alone; the conditions check the others. The index has titles in lower case.
  const [label, ...others] = namesOf(filter.labels);
  if (label !== undefined) {
    const titled = sql`lower(l.title) = lower(${label}) and l.title = ${label}`;
    add(withLabel('issues', place, titled), others.length === 0 ? { ...filter, labels: null } : filter);
  }
  if (filter.confidential && project_id === undefined && !actor.isAdmin) add(confidentialFor(actor, me));
  for (const column of ['created_at', 'updated_at'] as const) {
    const range = within(filter, column);
    if (range.length > 0)
      rows(
        sql.join([...(project_id === undefined ? [] : [sql`issues.project_id = ${project_id}`]), ...range], sql` and `),
      );
  }
  return drivers;
};

/** The last driver for a page. A count needs none: one index has the project and the state. */
export const stateDriver = ({ state }: IssueFilter, { project_id }: ListPlace): readonly Driver[] =>
  state && project_id !== undefined
    ? [{ ids: sql`select issues.id from issues where issues.project_id = ${project_id} and issues.state = ${state}` }]
    : [];

/** Selects the confidential issues that the user can see: their own, and those of projects whose planners they are. */
const confidentialFor = (actor: Actor, me: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select issues.id from issues where issues.author_id = ${me} and issues.confidential
    union all select a.issue_id from issue_assignees a where a.user_id = ${me}
    union all select held.id from ${projectsHeld(actor, PLANNER)} projects cross join lateral (
      select issues.id from issues where issues.project_id = projects.id and issues.confidential offset 0) held`;

const namesOf = (names: Named | null | undefined): readonly string[] =>
  names == null || typeof names === 'string' ? [] : names;
