import { type RawBuilder, sql } from 'kysely';
import { withLabel, withMilestone } from '#domains/planning/linked.ts';
import type { Driver, ListPlace } from '#domains/planning/lists.ts';
import type { Actor } from '#platform/context.ts';
import { and } from '#platform/db/conditions.ts';
import { containsWords } from '#platform/db/like.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { deploymentsOf } from './deployed.ts';
import {
  type Choice,
  conditions,
  idOf,
  lowered,
  type MergeRequestFilter,
  type NoneOrAny,
  type Person,
} from './filter.ts';

/**
 * Returns the ways to find the matches of a filter from an index, most selective first. Empty if no condition of the
 * filter has an index that finds its rows.
 */
export const driversOf = (actor: Actor, filter: MergeRequestFilter, place: ListPlace): readonly Driver[] => {
  const { project_id } = place;
  const drivers: Driver[] = [];
  const add = (ids: RawBuilder<unknown>, rest?: MergeRequestFilter) =>
    drivers.push(rest ? { ids, conditions: conditions(actor, rest) } : { ids });
  const inProject = project_id === undefined ? sql`true` : sql`mr.project_id = ${project_id}`;
  // Only if one index has the project too. Otherwise Postgres might read the whole project.
  const rows = (condition: RawBuilder<unknown>) =>
    add(sql`select mr.id from merge_requests mr where ${inProject} and ${condition}`);
  const anywhere = (condition: RawBuilder<unknown>) => add(sql`select mr.id from merge_requests mr where ${condition}`);
  const linked = (from: RawBuilder<unknown>) => add(sql`select held.merge_request_id as id from ${from}`);

  if (filter.iids && project_id !== undefined) {
    // Each number is looked up by itself: for several, Postgres would read all of the project.
    const ids = sql`select held.id from unnest(${filter.iids}::bigint[]) wanted (iid) cross join lateral (
      select mr.id from merge_requests mr where ${inProject} and mr.iid = wanted.iid offset 0) held`;
    drivers.push({ ids });
  }
  if (filter.commit_sha !== undefined) {
    const { commit_sha: sha } = filter;
    add(sql`select d.merge_request_id as id from merge_request_diff_commits c
        join merge_request_diffs d on d.id = c.diff_id where c.sha = ${sha}
      union all select mr.id from merge_requests mr where mr.merge_commit_sha = ${sha}
      union all select mr.id from merge_requests mr where mr.squash_commit_sha = ${sha}`);
  }
  if (filter.source_branches) rows(sql`mr.source_branch = any (${filter.source_branches}::text[])`);
  const me = actor.userId ?? 0;
  if (filter.scope === 'assigned_to_me') linked(held('merge_request_assignees', { id: me }));
  if (filter.scope === 'reviews_for_me') linked(held('merge_request_reviewers', { id: me }));
  if (filter.scope === 'created_by_me') anywhere(sql`mr.author_id = ${me}`);
  for (const person of choicesOf(filter.assignees)) linked(held('merge_request_assignees', person));
  if (isPerson(filter.reviewer)) linked(held('merge_request_reviewers', filter.reviewer));
  if (filter.author) anywhere(sql`mr.author_id = ${idOf(filter.author)}`);
  for (const person of choicesOf(filter.approved_by)) linked(held('merge_request_approvals', person));
  if (filter.my_reaction_emoji && filter.my_reaction_emoji !== 'None')
    linked(sql`award_emoji held where held.user_id = ${me} and held.merge_request_id is not null`);
  if (filter.milestone_id != null) anywhere(sql`mr.milestone_id = ${filter.milestone_id}`);
  const milestones = choicesOf(filter.milestone);
  if (milestones.length > 0) {
    const titled = sql`m.title = any (${milestones}::text[])`;
    add(withMilestone('merge_requests', place, titled), { ...filter, milestone: null });
  }
  // Found by the first title alone; the conditions check the others.
  const [label, ...others] = lowered(choicesOf(filter.labels));
  if (label !== undefined) {
    const titled = sql`lower(l.title) = ${label}`;
    add(withLabel('merge_requests', place, titled), others.length === 0 ? { ...filter, labels: null } : filter);
  }
  if (filter.search && /[a-z0-9]{3}/i.test(filter.search)) {
    const found = containsWords(['mr.title', 'mr.description'], filter.search);
    drivers.push({ ids: sql`select mr.id from merge_requests mr where ${found}`, readsAll: true });
  }
  const deployments = deploymentsOf(filter);
  if (deployments)
    linked(project_id === undefined ? deployments : sql`${deployments} and d.project_id = ${project_id}`);
  if (filter.draft) rows(sql`mr.draft`);
  if (filter.merge_user) anywhere(sql`mr.merge_user_id = ${idOf(filter.merge_user)}`);
  if (filter.source_project_id != null) anywhere(sql`mr.source_project_id = ${filter.source_project_id}`);
  if (filter.target_branches) rows(sql`mr.target_branch = any (${filter.target_branches}::text[])`);
  for (const name of ['created', 'updated', 'merged'] as const) {
    const [after, before] = [filter[`${name}_after`], filter[`${name}_before`]];
    const column = sql.ref(`mr.${name}_at`);
    if (after) rows(and([atOrAfter(column, after), ...(before ? [atOrBefore(column, before)] : [])]));
  }
  return drivers;
};

/** The last driver for a page. A count needs none: one index has the project and the state. */
export const stateDriver = ({ state }: MergeRequestFilter, { project_id }: ListPlace): readonly Driver[] => {
  if (!state || state === 'all') return [];
  const inProject = project_id === undefined ? sql`true` : sql`mr.project_id = ${project_id}`;
  return [{ ids: sql`select mr.id from merge_requests mr where ${inProject} and mr.state = ${state}` }];
};

const held = (table: string, person: Person): RawBuilder<unknown> =>
  sql`${sql.table(table)} held where held.user_id = ${idOf(person)}`;

const choicesOf = <T>(choice: Choice<T> | null | undefined): readonly T[] =>
  choice == null || choice === 'None' || choice === 'Any' ? [] : choice;

const isPerson = (holder: NoneOrAny | Person | null | undefined): holder is Person =>
  holder != null && typeof holder !== 'string';
