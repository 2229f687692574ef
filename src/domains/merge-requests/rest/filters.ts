import { SEARCHED } from '#domains/planning/list-filter.ts';
import type { Input, Rule } from '#rest/input.ts';
import { boolean, commaList, dateTime, exclusive, hash, integer, oneOf, text } from '#rest/params.ts';
import {
  type Choice,
  type Criteria,
  choiceOf,
  MERGE_REQUEST_ORDERS,
  MERGE_REQUEST_SCOPES,
  type MergeRequestFilter,
  type MergeRequestScope,
  type NoneOrAny,
  type Person,
  wordOf,
} from '../lists/filter.ts';
import { MERGE_REQUEST_STATES } from '../model.ts';

const words = text({ max: 1_000 });
const username = text({ max: 255 }).optional();
/** An id, `None` or `Any`. */
const idOrWord = text({ max: 20, pattern: /^(?:\d{1,15}|None|Any|none|any|)$/ }).optional();

const criteria = {
  labels: commaList(text({ max: 255 })).optional(),
  milestone: words.optional(),
  author_id: integer().optional(),
  author_username: username,
  assignee_id: idOrWord,
  assignee_username: commaList(text({ max: 255 }), { max: 100 }).optional(),
  reviewer_id: idOrWord,
  reviewer_username: username,
  my_reaction_emoji: text({ max: 255 }).optional(),
};

/** Values that are not times are ignored (reference: merge-requests §6). */
const timeOfDeployment = dateTime().optional().catch(undefined);

/** The parameters that every list of merge requests accepts. */
export const filters = {
  ...criteria,
  not: hash(criteria).optional(),
  state: oneOf([...MERGE_REQUEST_STATES, 'all']).default('all'),
  approved: oneOf(['yes', 'no']).optional(),
  approved_by_ids: commaList(text({ max: 20, pattern: /^(?:\d{1,15}|None|Any)$/i })).optional(),
  approver_ids: commaList(text({ max: 20, pattern: /^(?:\d{1,15}|None|Any)$/i })).optional(),
  merge_user_id: integer().optional(),
  merge_user_username: username,
  source_project_id: integer().optional(),
  source_branch: words.optional(),
  target_branch: words.optional(),
  wip: oneOf(['yes', 'no']).optional(),
  draft: boolean().optional(),
  search: words.optional(),
  in: commaList(oneOf(SEARCHED)).optional(),
  created_after: dateTime().optional(),
  created_before: dateTime().optional(),
  updated_after: dateTime().optional(),
  updated_before: dateTime().optional(),
  environment: words.optional(),
  deployed_after: timeOfDeployment,
  deployed_before: timeOfDeployment,
  order_by: oneOf(MERGE_REQUEST_ORDERS).default('created_at'),
  sort: oneOf(['asc', 'desc']).default('desc'),
  view: oneOf(['simple']).optional(),
  with_labels_details: boolean().default(false),
  with_merge_status_recheck: boolean().default(false),
};
/** Also with hyphens, as clients of earlier versions write them. */
export const scope = oneOf([
  ...MERGE_REQUEST_SCOPES,
  ...(['created-by-me', 'assigned-to-me', 'reviews-for-me'] as const),
]);
export const filterRules = [
  exclusive('author_id', 'author_username'),
  exclusive('assignee_id', 'assignee_username'),
  exclusive('reviewer_id', 'reviewer_username'),
  exclusive('merge_user_id', 'merge_user_username'),
] satisfies readonly Rule<keyof typeof filters>[];

export const filterOf = (input: Input<typeof filters> & { readonly scope: string }): MergeRequestFilter => ({
  ...criteriaOf(input),
  scope: scopeOf(input.scope),
  not: input.not ? criteriaOf(input.not) : null,
  state: input.state,
  approved: input.approved === undefined ? null : input.approved === 'yes',
  approved_by: peopleOf(input.approved_by_ids),
  approvers: peopleOf(input.approver_ids),
  merge_user: personOf(input.merge_user_id, input.merge_user_username),
  source_project_id: input.source_project_id,
  source_branches: input.source_branch ? [input.source_branch] : null,
  target_branches: input.target_branch ? [input.target_branch] : null,
  draft: input.draft,
  wip: input.wip === undefined ? null : input.wip === 'yes',
  search: input.search,
  search_in: input.in,
  created_after: input.created_after,
  created_before: input.created_before,
  updated_after: input.updated_after,
  updated_before: input.updated_before,
  environment: input.environment,
  deployed_after: input.deployed_after,
  deployed_before: input.deployed_before,
  order_by: input.order_by,
  sort: input.sort,
});

const criteriaOf = (input: Input<typeof criteria>): Criteria => ({
  labels: input.labels?.length ? choiceOf(input.labels) : null,
  milestone: input.milestone ? choiceOf([input.milestone]) : null,
  author: personOf(input.author_id, input.author_username),
  assignees: assigneesOf(input),
  reviewer: holderOf(input.reviewer_id, input.reviewer_username),
  my_reaction_emoji: wordOf(input.my_reaction_emoji) ?? input.my_reaction_emoji,
});

const scopeOf = (given: string | undefined): MergeRequestScope | undefined =>
  MERGE_REQUEST_SCOPES.find((each) => each === given?.replaceAll('-', '_'));

const assigneesOf = ({ assignee_id, assignee_username }: Input<typeof criteria>): Choice<Person> | null => {
  const names = assignee_username ?? [];
  if (names.length > 1) return names.map((username) => ({ username }));
  const holder = holderOf(assignee_id, names[0]);
  return holder === null || typeof holder === 'string' ? holder : [holder];
};

/** More users than this are ignored (specification 2 §8). */
const MAX_APPROVERS = 5;

const peopleOf = (values: readonly string[] | undefined): Choice<Person> | null => {
  if (values === undefined || values.length === 0) return null;
  const word = values.length === 1 ? wordOf(values[0]) : null;
  return word ?? values.slice(0, MAX_APPROVERS).map((value) => ({ id: wordOf(value) ? 0 : Number(value) }));
};

const personOf = (id: number | undefined, name: string | undefined): Person | null =>
  id === undefined && !name ? null : { id, username: name };

const holderOf = (id: string | undefined, name: string | undefined): NoneOrAny | Person | null => {
  const word = wordOf(id) ?? wordOf(name);
  if (word) return word;
  // 0 has always meant nobody.
  if (id === '0') return 'None';
  return personOf(id ? Number(id) : undefined, name);
};
