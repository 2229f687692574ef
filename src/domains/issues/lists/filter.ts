import { type RawBuilder, sql } from 'kysely';
import { type ListScope, SEARCHED, type Searched } from '#domains/planning/list-filter.ts';
import type { Actor } from '#platform/context.ts';
import { containsWords } from '#platform/db/like.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import type { SortDirection } from '#platform/paging.ts';
import type { IssueOrder, IssueState, IssueType } from '../model.ts';

export type NoneOrAny = 'none' | 'any';

/** A list of names, or `none` or `any`. */
export type Named = readonly string[] | NoneOrAny;

/** Conditions that a filter requires or, under `not`, excludes. */
interface Conditions {
  readonly iids?: readonly number[] | null | undefined;
  /** Requires all of these. */
  readonly labels?: Named | null | undefined;
  /** Requires one of these titles. */
  readonly milestones?: Named | null | undefined;
  readonly author_id?: number | null | undefined;
  readonly author_username?: string | null | undefined;
  readonly assignee_id?: number | NoneOrAny | null | undefined;
  /** Requires one of these users. */
  readonly assignee_usernames?: readonly string[] | null | undefined;
  /** Issues to which the caller gave this emoji; also `none` and `any`. */
  readonly my_reaction_emoji?: string | null | undefined;
}

/** Selects and orders issues. Null and absent mean the same. Access rights always apply. */
export interface IssueFilter extends Conditions {
  readonly state?: IssueState | null | undefined;
  readonly milestone_id?: number | null | undefined;
  readonly scope?: ListScope | null | undefined;
  readonly search?: string | null | undefined;
  /** Defaults to both. */
  readonly search_in?: readonly Searched[] | null | undefined;
  readonly issue_types?: readonly IssueType[] | null | undefined;
  readonly confidential?: boolean | null | undefined;
  readonly created_after?: string | null | undefined;
  readonly created_before?: string | null | undefined;
  readonly updated_after?: string | null | undefined;
  readonly updated_before?: string | null | undefined;
  readonly not?: Conditions | undefined;
  readonly order_by?: IssueOrder | null | undefined;
  readonly sort?: SortDirection | null | undefined;
}

/** Returns the conditions of the filter on the row `issues`, without access rights. */
export const conditions = (actor: Actor, filter: IssueFilter): RawBuilder<boolean>[] => {
  const all = criteria(actor, filter);
  const add = (condition: RawBuilder<boolean>) => all.push(condition);
  if (filter.labels) all.push(...allLabels(filter.labels));
  // If several values are excluded, each of them is excluded.
  // Coalesced, so that an issue without an author is not excluded.
  for (const condition of criteria(actor, filter.not ?? {})) add(sql`not coalesce(${condition}, false)`);
  if (filter.not?.labels) add(sql`not ${oneLabel(filter.not.labels)}`);
  if (filter.state) add(sql`issues.state = ${filter.state}`);
  if (filter.milestone_id != null) add(sql`issues.milestone_id = ${filter.milestone_id}`);
  if (filter.scope === 'created_by_me') add(sql`issues.author_id = ${actor.userId ?? 0}`);
  if (filter.scope === 'assigned_to_me') add(assignedTo(sql`a.user_id = ${actor.userId ?? 0}`));
  if (filter.search) {
    const columns = filter.search_in?.length ? filter.search_in : SEARCHED;
    const places = columns.map((column) => `issues.${column}`);
    add(containsWords(places, filter.search));
  }
  if (filter.issue_types) add(sql`issues.issue_type = any (${filter.issue_types}::text[])`);
  if (filter.confidential != null) add(filter.confidential ? sql`issues.confidential` : sql`not issues.confidential`);
  for (const column of ['created_at', 'updated_at'] as const) all.push(...within(filter, column));
  return all;
};

/** Returns the conditions of the filter on the time in this column. */
export const within = (filter: IssueFilter, column: 'created_at' | 'updated_at'): RawBuilder<boolean>[] => {
  const name = column === 'created_at' ? 'created' : 'updated';
  const [after, before] = [filter[`${name}_after`], filter[`${name}_before`]];
  const of = sql.ref(`issues.${column}`);
  return [...(after == null ? [] : [atOrAfter(of, after)]), ...(before == null ? [] : [atOrBefore(of, before)])];
};

const criteria = (actor: Actor, filter: Conditions): RawBuilder<boolean>[] => {
  const all: RawBuilder<boolean>[] = [];
  if (filter.iids) {
    const [iid, ...others] = filter.iids;
    // A single number is found by its index. For several, Postgres reads all issues of the project.
    all.push(
      iid !== undefined && others.length === 0
        ? sql<boolean>`issues.iid = ${iid}::bigint`
        : sql<boolean>`issues.iid = any (${filter.iids}::bigint[])`,
    );
  }
  if (filter.milestones) all.push(milestoneCondition(filter.milestones));
  // An author is compared with a single id, so that their issues are found by index.
  if (filter.author_id != null) all.push(sql<boolean>`issues.author_id = ${filter.author_id}`);
  if (filter.author_username != null) all.push(sql<boolean>`issues.author_id = ${userNamed(filter.author_username)}`);
  const { assignee_id } = filter;
  if (assignee_id === 'any' || assignee_id === 'none') {
    const isAssigned = assignedTo(sql<boolean>`true`);
    all.push(assignee_id === 'any' ? isAssigned : sql<boolean>`(not ${isAssigned})`);
  } else if (assignee_id != null) all.push(assignedTo(sql<boolean>`a.user_id = ${assignee_id}`));
  if (filter.assignee_usernames) {
    // The users are found once, not for each issue.
    all.push(assignedTo(sql<boolean>`a.user_id = any (${usersNamed(filter.assignee_usernames)})`));
  }
  const { my_reaction_emoji: emoji } = filter;
  if (emoji) {
    const given = sql`select 1 from award_emoji e where e.issue_id = issues.id and e.user_id = ${actor.userId ?? 0}`;
    all.push(
      emoji === 'none'
        ? sql<boolean>`(not exists (${given}))`
        : sql<boolean>`exists (${emoji === 'any' ? given : sql`${given} and e.name = ${emoji}`})`,
    );
  }
  return all;
};

/** Reads a reaction to filter by. `none` and `any` are case-insensitive. Other values are kept as they are. */
export const reactionOf = (given: string): string => (/^(none|any)$/i.test(given) ? given.toLowerCase() : given);

/** Selects the id of the user, or nothing. */
export const userNamed = (username: string): RawBuilder<unknown> =>
  sql`(select u.id from users u where lower(u.username) = lower(${username}))`;

/** Selects the ids of the users as an array. */
export const usersNamed = (usernames: readonly string[]): RawBuilder<unknown> =>
  sql`array(select u.id from users u
    where lower(u.username) = any (${usernames.map((name) => name.toLowerCase())}::text[]))`;

const assignedTo = (condition: RawBuilder<boolean>): RawBuilder<boolean> =>
  sql<boolean>`exists (select 1 from issue_assignees a where a.issue_id = issues.id and ${condition})`;

/** Requires one of the titles, or any label at all (or none). */
const oneLabel = (labels: Named): RawBuilder<boolean> => {
  const any = sql`exists (select 1 from label_links k where k.issue_id = issues.id)`;
  if (labels === 'any') return sql<boolean>`${any}`;
  if (labels === 'none') return sql<boolean>`(not ${any})`;
  return sql<boolean>`exists (select 1 from label_links k join labels l on l.id = k.label_id
    where k.issue_id = issues.id and l.title = any (${labels}::text[]))`;
};

/** The first title finds the rows. A second condition covers all titles, because planning one per title takes long. */
const allLabels = (labels: Named): RawBuilder<boolean>[] => {
  if (typeof labels === 'string') return [oneLabel(labels)];
  const [first, ...others] = new Set(labels);
  if (first === undefined) return [];
  const titles = [first, ...others];
  return [
    oneLabel([first]),
    ...(others.length === 0
      ? []
      : [
          sql<boolean>`(select count(distinct l.title) from label_links k join labels l on l.id = k.label_id
            where k.issue_id = issues.id and l.title = any (${titles}::text[])) = ${titles.length}`,
        ]),
  ];
};

const milestoneCondition = (milestones: Named): RawBuilder<boolean> => {
  if (milestones === 'any') return sql<boolean>`(issues.milestone_id is not null)`;
  if (milestones === 'none') return sql<boolean>`(issues.milestone_id is null)`;
  return sql<boolean>`exists (select 1 from milestones m
    where m.id = issues.milestone_id and m.title = any (${milestones}::text[]))`;
};
