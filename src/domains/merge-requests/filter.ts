import { type RawBuilder, sql } from 'kysely';
import { type ListScope, SEARCHED, type Searched } from '#domains/planning/list-filter.ts';
import type { Actor } from '#platform/context.ts';
import { containing } from '#platform/db/like.ts';
import type { SortKey } from '#platform/db/list.ts';
import type { SortDirection } from '#platform/paging.ts';
import type { MergeRequestState } from './model.ts';
import type { MergeRequestRow } from './queries.ts';

export type MergeRequestOrder = 'created_at' | 'updated_at' | 'title' | 'merged_at' | 'closed_at';

/** None, any, or one of these. */
export type Choice<T> = 'None' | 'Any' | readonly T[];

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
  readonly assignee?: 'None' | 'Any' | Person | null | undefined;
  readonly reviewer?: 'None' | 'Any' | Person | null | undefined;
  /** An emoji that the caller has added. */
  readonly my_reaction_emoji?: string | null | undefined;
}

/** Selects and orders merge requests (specification 2 §4.4). Null and absent mean the same. */
export interface MergeRequestFilter extends Criteria {
  readonly iids?: readonly number[] | null | undefined;
  readonly state?: MergeRequestState | 'all' | null | undefined;
  readonly scope?: ListScope | null | undefined;
  readonly approved?: boolean | null | undefined;
  /** By all of these users. */
  readonly approved_by_ids?: Choice<number> | null | undefined;
  readonly merge_user?: Person | null | undefined;
  readonly source_branches?: readonly string[] | null | undefined;
  readonly target_branches?: readonly string[] | null | undefined;
  readonly draft?: boolean | null | undefined;
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
  /** Set if the filter has a condition that nothing here can meet. */
  readonly nothing?: boolean | null | undefined;
  readonly not?: Criteria | null | undefined;
  readonly order_by?: MergeRequestOrder | null | undefined;
  readonly sort?: SortDirection | null | undefined;
}

type Condition = RawBuilder<boolean>;

/** Returns the conditions of the filter on the row `merge_requests`, without access rights. */
export const conditions = (actor: Actor, filter: MergeRequestFilter): Condition[] => {
  const all = [...criteria(actor, filter), ...(filter.labels ? allLabels(filter.labels) : [])];
  const add = (condition: Condition) => all.push(condition);
  if (filter.nothing) add(sql`false`);
  if (filter.iids) add(sql`merge_requests.iid = any (${filter.iids}::bigint[])`);
  if (filter.state && filter.state !== 'all') add(sql`merge_requests.state = ${filter.state}`);
  if (filter.scope === 'created_by_me') add(sql`merge_requests.author_id = ${actor.userId ?? 0}`);
  if (filter.scope === 'assigned_to_me') add(holds('merge_request_assignees', { id: actor.userId ?? 0 }));
  if (filter.approved != null) {
    const approved = sql<boolean>`exists (select 1 from merge_request_approvals v where v.merge_request_id = merge_requests.id)`;
    add(filter.approved ? approved : sql`not ${approved}`);
  }
  if (filter.approved_by_ids) {
    const { approved_by_ids: ids } = filter;
    add(
      typeof ids === 'string'
        ? anyOrNone(ids, sql`select 1 from merge_request_approvals v where v.merge_request_id = merge_requests.id`)
        : sql`(select count(*) from merge_request_approvals v where v.merge_request_id = merge_requests.id
            and v.user_id = any (${ids}::bigint[])) = ${new Set(ids).size}`,
    );
  }
  if (filter.merge_user) add(sql`merge_requests.merge_user_id in ${idsOf(filter.merge_user)}`);
  if (filter.commit_sha !== undefined) {
    const { commit_sha: sha } = filter;
    add(sql`(${sha} in (merge_requests.merge_commit_sha, merge_requests.squash_commit_sha) or exists (
      select 1 from merge_request_diffs d join merge_request_diff_commits c on c.diff_id = d.id
      where d.merge_request_id = merge_requests.id and c.sha = ${sha}))`);
  }
  if (filter.source_branches) add(sql`merge_requests.source_branch = any (${filter.source_branches}::text[])`);
  if (filter.target_branches) add(sql`merge_requests.target_branch = any (${filter.target_branches}::text[])`);
  if (filter.draft != null) add(filter.draft ? sql`merge_requests.draft` : sql`not merge_requests.draft`);
  if (filter.search) {
    const pattern = containing(filter.search);
    const places = filter.search_in?.length ? filter.search_in : SEARCHED;
    add(
      sql`(${sql.join(
        places.map((place) => sql`${sql.ref(`merge_requests.${place}`)} ilike ${pattern}`),
        sql` or `,
      )})`,
    );
  }
  for (const name of ['created', 'updated', 'merged'] as const) {
    const column = sql.ref(`merge_requests.${name}_at`);
    const [after, before] = [filter[`${name}_after`], filter[`${name}_before`]];
    if (after) add(sql`${column} >= ${after}::timestamptz`);
    if (before) add(sql`${column} <= ${before}::timestamptz`);
  }
  // Each condition is negated separately: neither this author nor that label.
  for (const condition of filter.not ? criteria(actor, filter.not) : []) add(sql`(${condition}) is not true`);
  if (filter.not?.labels) add(sql`not ${oneLabel(filter.not.labels)}`);
  return all;
};

const criteria = (actor: Actor, filter: Criteria): Condition[] => {
  const all: Condition[] = [];
  const { milestone, author, assignee, reviewer, my_reaction_emoji: emoji } = filter;
  if (milestone) {
    all.push(
      typeof milestone === 'string'
        ? sql`merge_requests.milestone_id is ${sql.raw(milestone === 'None' ? 'null' : 'not null')}`
        : sql`merge_requests.milestone_id in (select m.id from milestones m where m.title = any (${milestone}::text[]))`,
    );
  }
  if (author) all.push(sql`merge_requests.author_id in ${idsOf(author)}`);
  if (assignee) all.push(holds('merge_request_assignees', assignee));
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

const lowered = (titles: readonly string[]): string[] => [...new Set(titles.map((title) => title.toLowerCase()))];

const anyOrNone = (choice: 'None' | 'Any', rows: RawBuilder<unknown>): Condition =>
  choice === 'Any' ? sql`exists (${rows})` : sql`not exists (${rows})`;

const holds = (
  table: 'merge_request_assignees' | 'merge_request_reviewers',
  whom: 'None' | 'Any' | Person,
): Condition => {
  const rows = sql`select 1 from ${sql.table(table)} held where held.merge_request_id = merge_requests.id`;
  return typeof whom === 'string' ? anyOrNone(whom, rows) : sql`exists (${rows} and held.user_id in ${idsOf(whom)})`;
};

const idsOf = ({ id, username }: Person): RawBuilder<unknown> =>
  id != null
    ? sql`(${id}::bigint)`
    : sql`(select u.id from users u where lower(u.username) = ${username?.toLowerCase()})`;

/** Returns the sort keys of the list. Missing merge and close times sort as earliest. */
export const sortKeys = ({ order_by }: MergeRequestFilter): readonly SortKey<MergeRequestRow>[] => {
  const byId: SortKey<MergeRequestRow> = { by: sql.ref('merge_requests.id'), of: (row) => row.id };
  switch (order_by) {
    case 'title':
      return [{ by: sql.ref('merge_requests.title'), of: (row) => row.title }, byId];
    case 'updated_at':
      return [{ by: sql.ref('merge_requests.updated_at'), of: (row) => row.updated_at }, byId];
    case 'merged_at':
    case 'closed_at':
      return [
        {
          by: sql`coalesce(${sql.ref(`merge_requests.${order_by}`)}, '-infinity'::timestamptz)`,
          of: (row) => row[order_by] ?? '-infinity',
        },
        byId,
      ];
    default:
      return [{ by: sql.ref('merge_requests.created_at'), of: (row) => row.created_at }, byId];
  }
};
