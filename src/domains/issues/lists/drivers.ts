import { type RawBuilder, sql } from 'kysely';
import { PLANNER } from '#domains/access/model.ts';
import { projectsHeld } from '#domains/access/policy.ts';
import { ofPlace, withLabel, withLabelBelow, withMilestone, withMilestoneBelow } from '#domains/planning/linked.ts';
import type { ListPlace } from '#domains/planning/lists.ts';
import type { Actor } from '#platform/context.ts';
import { type IssueFilter, type Named, userNamed, usersNamed, within } from './filter.ts';

/**
 * Returns the ways to find the matches of a filter from an index, most selective first. Each is a statement that selects
 * ids: all matches are among them. Empty if no condition of the filter has an index that finds its rows.
 */
export const driversOf = (
  actor: Actor,
  filter: IssueFilter,
  { project_id, group_id, directly }: ListPlace,
): readonly RawBuilder<unknown>[] => {
  const drivers: RawBuilder<unknown>[] = [];
  const group = project_id === undefined && group_id !== undefined ? sql`${group_id}::bigint` : null;
  const rows = (condition: RawBuilder<unknown>) => drivers.push(sql`select issues.id from issues where ${condition}`);
  const assignedTo = (user: RawBuilder<unknown>) =>
    drivers.push(sql`select a.issue_id as id from issue_assignees a where a.user_id = ${user}`);

  if (filter.iids && project_id !== undefined)
    rows(sql`issues.project_id = ${project_id} and issues.iid = any (${filter.iids}::bigint[])`);
  if (filter.iids && group !== null) {
    const within = directly ? sql`n.id = ${group}` : sql`n.traversal_ids @> array[${group}]`;
    drivers.push(sql`select held.id from namespaces n join projects p on p.namespace_id = n.id cross join lateral (
      select i.id from issues i where i.project_id = p.id and i.iid = any (${filter.iids}::bigint[]) offset 0) held
      where ${within}`);
  }
  const me = sql`${actor.userId ?? 0}`;
  if (filter.scope === 'assigned_to_me') assignedTo(me);
  if (filter.scope === 'created_by_me') rows(sql`issues.author_id = ${me}`);
  if (typeof filter.assignee_id === 'number') assignedTo(sql`${filter.assignee_id}`);
  if (filter.assignee_usernames) assignedTo(sql`any (${usersNamed(filter.assignee_usernames)})`);
  if (filter.author_id != null) rows(sql`issues.author_id = ${filter.author_id}`);
  if (filter.author_username != null) rows(sql`issues.author_id = ${userNamed(filter.author_username)}`);
  if (filter.my_reaction_emoji && filter.my_reaction_emoji !== 'none')
    drivers.push(sql`select e.issue_id as id from award_emoji e where e.user_id = ${me} and e.issue_id is not null`);
  if (filter.milestone_id != null) rows(sql`issues.milestone_id = ${filter.milestone_id}`);
  const ofProject = ofPlace(project_id);
  const milestones = namesOf(filter.milestones);
  if (milestones.length > 0) {
    const titled = sql`m.title = any (${milestones}::text[])`;
    drivers.push(
      group === null
        ? withMilestone('issues', sql`${titled} and ${ofProject('m')}`)
        : withMilestoneBelow('issues', group, titled),
    );
  }
  // Found by the first title alone; the conditions check the others. The index has titles in lower case.
  const [label] = namesOf(filter.labels);
  if (label !== undefined) {
    const titled = sql`lower(l.title) = lower(${label}) and l.title = ${label}`;
    drivers.push(
      group === null
        ? withLabel('issues', sql`${titled} and ${ofProject('l')}`)
        : withLabelBelow('issues', group, titled),
    );
  }
  if (filter.confidential && project_id === undefined && !actor.isAdmin) drivers.push(confidentialFor(actor, me));
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
export const stateDriver = ({ state }: IssueFilter, { project_id }: ListPlace): readonly RawBuilder<unknown>[] =>
  state && project_id !== undefined
    ? [sql`select issues.id from issues where issues.project_id = ${project_id} and issues.state = ${state}`]
    : [];

/** Selects the confidential issues that the user can see: their own, and those of projects whose planners they are. */
const confidentialFor = (actor: Actor, me: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select issues.id from issues where issues.author_id = ${me} and issues.confidential
    union all select a.issue_id from issue_assignees a where a.user_id = ${me}
    union all select held.id from ${projectsHeld(actor, PLANNER)} projects cross join lateral (
      select issues.id from issues where issues.project_id = projects.id and issues.confidential offset 0) held`;

const namesOf = (names: Named | null | undefined): readonly string[] =>
  names == null || typeof names === 'string' ? [] : names;
