import { type RawBuilder, sql } from 'kysely';
import { LIST_SCOPES, SEARCHED, type Searched } from '#domains/planning/list-filter.ts';
import type { Actor } from '#platform/context.ts';
import { containsWords } from '#platform/db/like.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import type { SortDirection } from '#platform/paging.ts';
import type { MergeRequestState } from '../model.ts';
import { type DeployedFilter, deploymentsOf, wasDeployed } from './deployed.ts';

/** Which merge requests a list covers. All but `all` are empty for anonymous callers. */
export const MERGE_REQUEST_SCOPES = [...LIST_SCOPES, 'reviews_for_me'] as const;
export type MergeRequestScope = (typeof MERGE_REQUEST_SCOPES)[number];

export const MERGE_REQUEST_ORDERS = [
  'created_at',
  'updated_at',
  'title',
  'merged_at',
  'label_priority',
  'milestone_due',
  'popularity',
  'priority',
] as const;
export type MergeRequestOrder = (typeof MERGE_REQUEST_ORDERS)[number] | 'closed_at';

export type NoneOrAny = 'None' | 'Any';

/** None, any, or one of these. */
export type Choice<T> = NoneOrAny | readonly T[];

/** `None` and `Any`, case-insensitive. */
export const wordOf = (value: string | undefined): NoneOrAny | null => {
  const word = value?.toLowerCase();
  return word === 'none' ? 'None' : word === 'any' ? 'Any' : null;
};

/** Returns the names, or the meaning of a single `None` or `Any`. */
export const choiceOf = (names: readonly string[]): Choice<string> =>
  (names.length === 1 ? wordOf(names[0]) : null) ?? names;

/** A user by id or name. */
export interface Person {
  readonly id?: number | null | undefined;
  readonly username?: string | null | undefined;
}

/** Conditions that can also be negated. */
export interface Criteria {
  /** Requires all of these, case-insensitive. */
  readonly labels?: Choice<string> | null | undefined;
  readonly milestone?: Choice<string> | null | undefined;
  readonly author?: Person | null | undefined;
  /** Requires all of these. */
  readonly assignees?: Choice<Person> | null | undefined;
  readonly reviewer?: NoneOrAny | Person | null | undefined;
  /** An emoji that the caller has added. */
  readonly my_reaction_emoji?: string | null | undefined;
}

/** Selects and orders merge requests (specification 2 §4.4). Null and absent mean the same. */
export interface MergeRequestFilter extends Criteria, DeployedFilter {
  readonly iids?: readonly number[] | null | undefined;
  readonly state?: MergeRequestState | 'all' | null | undefined;
  readonly scope?: MergeRequestScope | null | undefined;
  readonly approved?: boolean | null | undefined;
  /** By all of these users. */
  readonly approved_by?: Choice<Person> | null | undefined;
  /** All of these users are named by a rule: one of the merge request, or of the project if it has none of its own. */
  readonly approvers?: Choice<Person> | null | undefined;
  readonly merge_user?: Person | null | undefined;
  readonly source_project_id?: number | null | undefined;
  readonly milestone_id?: number | null | undefined;
  readonly source_branches?: readonly string[] | null | undefined;
  readonly target_branches?: readonly string[] | null | undefined;
  readonly draft?: boolean | null | undefined;
  /** Has a title that marks a draft: the marks of `draft`, or `Draft - ` (reference: merge-requests §6). */
  readonly wip?: boolean | null | undefined;
  readonly search?: string | null | undefined;
  /** Defaults to title and description. */
  readonly search_in?: readonly Searched[] | null | undefined;
  readonly created_after?: string | null | undefined;
  readonly created_before?: string | null | undefined;
  readonly updated_after?: string | null | undefined;
  readonly updated_before?: string | null | undefined;
  readonly merged_after?: string | null | undefined;
  readonly merged_before?: string | null | undefined;
  /** Contains this commit, or resulted in it when merged. */
  readonly commit_sha?: string | undefined;
  readonly not?: Criteria | null | undefined;
  readonly order_by?: MergeRequestOrder | null | undefined;
  readonly sort?: SortDirection | null | undefined;
}

type Condition = RawBuilder<boolean>;

/** Returns the conditions of the filter on the row `merge_requests`, without access rights. */
export const conditions = (actor: Actor, filter: MergeRequestFilter): Condition[] => {
  const all = [...criteria(actor, filter), ...(filter.labels ? allLabels(filter.labels) : [])];
  const add = (condition: Condition) => all.push(condition);
  const deployments = deploymentsOf(filter);
  if (deployments) add(wasDeployed(actor, deployments));
  if (filter.iids) {
    const [iid, ...others] = filter.iids;
    // A single number is found by its index. For several, Postgres reads all merge requests of the project.
    add(
      iid !== undefined && others.length === 0
        ? sql`merge_requests.iid = ${iid}::bigint`
        : sql`merge_requests.iid = any (${filter.iids}::bigint[])`,
    );
  }
  if (filter.state && filter.state !== 'all') add(sql`merge_requests.state = ${filter.state}`);
  if (filter.scope === 'created_by_me') add(sql`merge_requests.author_id = ${actor.userId ?? 0}`);
  if (filter.scope === 'assigned_to_me') add(holds('merge_request_assignees', { id: actor.userId ?? 0 }));
  if (filter.scope === 'reviews_for_me') add(holds('merge_request_reviewers', { id: actor.userId ?? 0 }));
  if (filter.approved != null) {
    const approved = sql<boolean>`exists (select 1 from merge_request_approvals v where v.merge_request_id = merge_requests.id)`;
    add(filter.approved ? approved : sql`not ${approved}`);
  }
  if (filter.approved_by) {
    all.push(
      ...everyOne(filter.approved_by, sql`merge_request_approvals v where v.merge_request_id = merge_requests.id`),
    );
  }
  if (filter.approvers) {
    // Rules are for signed-in readers.
    all.push(...(actor.userId === null ? [sql<boolean>`false`] : everyOne(filter.approvers, NAMED_APPROVERS)));
  }
  if (filter.merge_user) add(sql`merge_requests.merge_user_id = ${idOf(filter.merge_user)}`);
  if (filter.commit_sha !== undefined) {
    const { commit_sha: sha } = filter;
    add(sql`(${sha} in (merge_requests.merge_commit_sha, merge_requests.squash_commit_sha) or exists (
      select 1 from merge_request_diffs d join merge_request_diff_commits c on c.diff_id = d.id
      where d.merge_request_id = merge_requests.id and c.sha = ${sha}))`);
  }
  if (filter.source_project_id != null) add(sql`merge_requests.source_project_id = ${filter.source_project_id}`);
  if (filter.source_branches) add(sql`merge_requests.source_branch = any (${filter.source_branches}::text[])`);
  if (filter.target_branches) add(sql`merge_requests.target_branch = any (${filter.target_branches}::text[])`);
  if (filter.draft != null) add(filter.draft ? sql`merge_requests.draft` : sql`not merge_requests.draft`);
  if (filter.wip != null) {
    add(
      sql`merge_requests.title ${sql.raw(filter.wip ? '' : 'not ')}ilike ${sql.raw(filter.wip ? 'any' : 'all')} (${WIP_TITLES}::text[])`,
    );
  }
  if (filter.milestone_id != null) add(sql`merge_requests.milestone_id = ${filter.milestone_id}`);
  if (filter.search) {
    const places = filter.search_in?.length ? filter.search_in : SEARCHED;
    const columns = places.map((place) => `merge_requests.${place}`);
    all.push(containsWords(columns, filter.search));
  }
  for (const name of ['created', 'updated', 'merged'] as const) {
    const column = sql.ref(`merge_requests.${name}_at`);
    const [after, before] = [filter[`${name}_after`], filter[`${name}_before`]];
    if (after) add(atOrAfter(column, after));
    if (before) add(atOrBefore(column, before));
  }
  // Each condition is negated separately: neither this author nor that label.
  for (const condition of filter.not ? criteria(actor, filter.not) : []) add(sql`(${condition}) is not true`);
  if (filter.not?.labels) add(sql`not ${oneLabel(filter.not.labels)}`);
  // An unknown reviewer finds nothing, not even when negated (reference: merge-requests §6).
  const { reviewer } = filter.not ?? {};
  if (reviewer && typeof reviewer !== 'string') add(sql`exists (select from users u where u.id = ${idOf(reviewer)})`);
  return all;
};

const WIP_TITLES = ['draft:%', 'draft - %', '[draft]%', '(draft)%'];

const criteria = (actor: Actor, filter: Criteria): Condition[] => {
  const all: Condition[] = [];
  const { milestone, author, assignees, reviewer, my_reaction_emoji: emoji } = filter;
  if (milestone) {
    all.push(
      typeof milestone === 'string'
        ? sql`merge_requests.milestone_id is ${sql.raw(milestone === 'None' ? 'null' : 'not null')}`
        : sql`merge_requests.milestone_id in (select m.id from milestones m where m.title = any (${milestone}::text[]))`,
    );
  }
  if (author) all.push(sql`merge_requests.author_id = ${idOf(author)}`);
  for (const assignee of typeof assignees === 'string' ? [assignees] : (assignees ?? []))
    all.push(holds('merge_request_assignees', assignee));
  if (reviewer) all.push(holds('merge_request_reviewers', reviewer));
  if (emoji) {
    const mine = sql`select 1 from award_emoji e where e.merge_request_id = merge_requests.id and e.user_id = ${actor.userId ?? 0}`;
    all.push(
      emoji === 'None' || emoji === 'Any' ? anyOrNone(emoji, mine) : sql`exists (${mine} and e.name = ${emoji})`,
    );
  }
  return all;
};

const LABELS = sql`from label_links k join labels l on l.id = k.label_id where k.merge_request_id = merge_requests.id`;

/** Requires one of the titles, or any label at all (or none). */
const oneLabel = (labels: Choice<string>): Condition =>
  typeof labels === 'string'
    ? sql`(${anyOrNone(labels, sql`select 1 ${LABELS}`)})`
    : sql`exists (select 1 ${LABELS} and lower(l.title) = any (${lowered(labels)}::text[]))`;

/** The first title finds the rows. A second condition covers all titles, because planning one per title takes long. */
const allLabels = (labels: Choice<string>): Condition[] => {
  if (typeof labels === 'string') return [oneLabel(labels)];
  const titles = lowered(labels);
  if (titles.length <= 1) return titles.map((title) => oneLabel([title]));
  return [
    oneLabel(titles.slice(0, 1)),
    sql`(select count(distinct lower(l.title)) ${LABELS} and lower(l.title) = any (${titles}::text[])) = ${titles.length}`,
  ];
};

export const lowered = (titles: readonly string[]): string[] => [
  ...new Set(titles.map((title) => title.toLowerCase())),
];

const anyOrNone = (choice: NoneOrAny, rows: RawBuilder<unknown>): Condition =>
  choice === 'Any' ? sql`exists (${rows})` : sql`not exists (${rows})`;

const NAMED_APPROVERS = sql`approval_rule_users v join approval_rules r on r.id = v.rule_id
  where (r.merge_request_id = merge_requests.id or (r.project_id = merge_requests.project_id
    and not exists (select from approval_rules own where own.merge_request_id = merge_requests.id)))`;

/** Requires each of the users among the rows `v`, or anybody at all (or nobody). */
const everyOne = (choice: Choice<Person>, rows: RawBuilder<unknown>): Condition[] =>
  typeof choice === 'string'
    ? [anyOrNone(choice, sql`select 1 from ${rows}`)]
    : choice.map((person) => sql`exists (select 1 from ${rows} and v.user_id = ${idOf(person)})`);

const holds = (table: 'merge_request_assignees' | 'merge_request_reviewers', whom: NoneOrAny | Person): Condition => {
  const rows = sql`select 1 from ${sql.table(table)} held where held.merge_request_id = merge_requests.id`;
  return typeof whom === 'string' ? anyOrNone(whom, rows) : sql`exists (${rows} and held.user_id = ${idOf(whom)})`;
};

/** Selects the id of the user, or nothing. */
export const idOf = ({ id, username }: Person): RawBuilder<unknown> =>
  id != null
    ? sql`${id}::bigint`
    : sql`(select u.id from users u where lower(u.username) = ${username?.toLowerCase()})`;
