import type { z } from 'zod';
import { getGroup } from '#domains/groups/queries.ts';
import { MAX_LABELS } from '#domains/labels/linking.ts';
import { getMilestoneAt } from '#domains/milestones/queries.ts';
import type { ContainerKind } from '#domains/planning/container.ts';
import { SEARCHED } from '#domains/planning/list-filter.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badParameters } from '#platform/errors.ts';
import { type PageRequest, readPage } from '#platform/paging.ts';
import type { Input } from '#rest/input.ts';
import {
  atLeastOneOf,
  boolean,
  commaList,
  date,
  dateTime,
  exclusive,
  hash,
  idOrPath,
  integer,
  oneOf,
  text,
} from '#rest/params.ts';
import { listRoute, type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { createIssue, deleteIssue, updateIssue } from './commands.ts';
import { type IssueFilter, type Named, type NoneOrAny, reactionOf } from './lists/filter.ts';
import { type IssueScope, listIssues, listIssuesOfMilestone } from './lists.ts';
import { ISSUE_ORDERS, ISSUE_STATE_EVENTS, ISSUE_STATES, ISSUE_TYPES } from './model.ts';
import { getIssue } from './queries.ts';
import { type IssueRecordOptions, issueRecord, toIssue, toIssues } from './record.ts';
import { issueSubscriptionRoutes } from './rest/subscriptions.ts';

const tag = 'Issues';
const MAX_INTEGER = 2_147_483_647;
const username = () => text({ max: 255 });
const labels = () => commaList(text({ max: 255 }), { max: MAX_LABELS });

/** Conditions that a list requires or, with `not[...]`, excludes. */
const demands = {
  iids: commaList(integer(), { max: 1_000 }).optional(),
  labels: labels().optional(),
  milestone: text({ max: 255 }).optional(),
  author_id: integer().optional(),
  author_username: username().optional(),
  assignee_id: text({ max: 20 }).optional(),
  assignee_username: commaList(username(), { max: 100 }).optional(),
  my_reaction_emoji: text({ max: 100 }).optional(),
};

const filters = {
  ...demands,
  not: hash(demands).optional(),
  state: oneOf([...ISSUE_STATES, 'all']).optional(),
  search: text({ max: 1_000 }).optional(),
  in: commaList(oneOf(SEARCHED)).optional(),
  issue_type: oneOf(ISSUE_TYPES).optional(),
  confidential: boolean().optional(),
  created_after: dateTime().optional(),
  created_before: dateTime().optional(),
  updated_after: dateTime().optional(),
  updated_before: dateTime().optional(),
  order_by: oneOf(ISSUE_ORDERS).default('created_at'),
  sort: oneOf(['asc', 'desc']).default('desc'),
  with_labels_details: boolean().default(false),
};
const scope = oneOf(['created_by_me', 'created-by-me', 'assigned_to_me', 'assigned-to-me', 'all']);
const paging = { keyset: { created_at: 'time', updated_at: 'time', title: 'text' } } as const;

const planning = {
  assignee_id: integer().nullish(),
  assignee_ids: commaList(integer(), { max: 200 }).nullish(),
  milestone_id: integer().nullish(),
  labels: labels().nullish(),
  due_date: date().nullish(),
  weight: integer({ min: 0, max: MAX_INTEGER }).nullish(),
  confidential: boolean().optional(),
  issue_type: oneOf(ISSUE_TYPES).optional(),
  description: text().nullish(),
};
const one = { id: idOrPath(), issue_iid: integer() };

export const routes = [
  ...issueSubscriptionRoutes,
  listRoute({
    path: '/issues',
    tag,
    summary: 'List issues of all projects that the caller can see',
    description: "The caller's own issues by default; see `scope`. Anonymous callers must pass `all`.",
    auth: 'optional',
    paging: 'offset',
    input: { ...filters, scope: scope.default('created_by_me') },
    item: issueRecord,
    run: (ctx, input, page) => issuePage(ctx, 'everywhere', input, page),
  }),
  listRoute({
    path: '/groups/:id/issues',
    tag,
    summary: 'List the issues of the projects below a group',
    auth: 'optional',
    paging: 'offset',
    input: { ...filters, id: idOrPath(), scope: scope.default('all'), include_subgroups: boolean().default(true) },
    item: issueRecord,
    run: async (ctx, { id, include_subgroups, ...input }, page) =>
      issuePage(ctx, { group: await getGroup(ctx, id), direct: !include_subgroups }, input, page),
  }),
  listRoute({
    path: '/projects/:id/issues',
    tag,
    summary: 'List the issues of a project',
    auth: 'optional',
    paging,
    input: { ...filters, id: idOrPath(), scope: scope.default('all') },
    item: issueRecord,
    run: async (ctx, { id, ...input }, page) => {
      const project = await getProject(ctx, id);
      return issuePage(ctx, { project }, input, page, { project });
    },
  }),
  milestoneIssues('group', '/groups/:id'),
  milestoneIssues('project', '/projects/:id'),
  route({
    method: 'GET',
    path: '/projects/:id/issues/:issue_iid',
    tag,
    summary: 'Get an issue',
    auth: 'optional',
    input: one,
    response: issueRecord,
    run: async (ctx, { id, issue_iid }) => {
      const project = await getProject(ctx, id);
      return toIssue(ctx, await getIssue(ctx, project, issue_iid), { project });
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/issues',
    tag,
    summary: 'Open an issue',
    description:
      'Labels, milestone, assignees, due date and weight only apply for Planners and above, `iid` and `created_at` for owners.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: {
      ...planning,
      id: idOrPath(),
      title: text(),
      created_at: dateTime().optional(),
      iid: integer({ min: 1, max: MAX_INTEGER }).optional(),
    },
    rules: [exclusive('assignee_id', 'assignee_ids')],
    response: issueRecord,
    run: async (ctx, { id, ...input }) => {
      const project = await getProject(ctx, id);
      const { assignee_id, ...rest } = input;
      const issue = await createIssue(ctx, project, {
        ...rest,
        assignee_ids: assigneesOf(input),
        labels: input.labels ?? undefined,
      });
      return toIssue(ctx, issue, { project });
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/issues/:issue_iid',
    tag,
    summary: 'Change, close or reopen an issue',
    description: 'The author may change title, description, type and state. Planners and above may change everything.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: {
      ...planning,
      ...one,
      title: text().optional(),
      state_event: oneOf(ISSUE_STATE_EVENTS).optional(),
      add_labels: labels().optional(),
      remove_labels: labels().optional(),
      discussion_locked: boolean().nullish(),
    },
    rules: [
      exclusive('assignee_id', 'assignee_ids'),
      atLeastOneOf(
        'assignee_id',
        'assignee_ids',
        'confidential',
        'description',
        'discussion_locked',
        'due_date',
        'labels',
        'add_labels',
        'remove_labels',
        'milestone_id',
        'state_event',
        'title',
        'issue_type',
        'weight',
      ),
    ],
    response: issueRecord,
    run: async (ctx, { id, issue_iid, ...input }) => {
      const project = await getProject(ctx, id);
      const { assignee_id, ...rest } = input;
      const issue = await updateIssue(ctx, project, await getIssue(ctx, project, issue_iid), {
        ...rest,
        assignee_ids: assigneesOf(input),
        // Null removes all labels.
        labels: input.labels === null ? [] : input.labels,
      });
      return toIssue(ctx, issue, { project });
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/issues/:issue_iid',
    tag,
    summary: 'Delete an issue',
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id, issue_iid }, http) => {
      const project = await getProject(ctx, id);
      await deleteIssue(ctx, project, await getIssue(ctx, project, issue_iid), unmodifiedSince(http));
    },
  }),
] satisfies readonly Route[];

function milestoneIssues(kind: ContainerKind, path: '/groups/:id' | '/projects/:id') {
  return listRoute({
    path: `${path}/milestones/:milestone_id/issues`,
    tag,
    summary: `List the issues of a milestone of a ${kind}`,
    auth: 'optional',
    paging: 'offset',
    input: { id: idOrPath(), milestone_id: integer(), state: filters.state },
    item: issueRecord,
    run: async (ctx, { id, milestone_id, state }, page) => {
      const { milestone } = await getMilestoneAt(ctx, kind, id, milestone_id);
      const filter = { state: state === 'all' ? null : state };
      const found = await readPage(listIssuesOfMilestone(ctx, milestone, filter), page);
      return { ...found, items: await toIssues(ctx, found.items) };
    },
  });
}

/** `assignee_id` is the older parameter. 0 and null mean nobody. */
const assigneesOf = (input: {
  readonly assignee_id?: number | null | undefined;
  readonly assignee_ids?: readonly number[] | null | undefined;
}): readonly number[] | undefined => {
  if (input.assignee_ids !== undefined) return input.assignee_ids ?? [];
  return input.assignee_id === undefined ? undefined : [input.assignee_id ?? 0];
};

type FilterInput = Input<typeof filters> & { readonly scope: z.output<typeof scope> };
type Demands = Partial<Input<typeof demands>>;

const issuePage = async (
  ctx: Context,
  where: IssueScope,
  input: FilterInput,
  page: PageRequest,
  options: IssueRecordOptions = {},
) => {
  const found = await readPage(listIssues(ctx, where, filterOf(input)), page);
  const withLabelsDetails = input.with_labels_details;
  return { ...found, items: await toIssues(ctx, found.items, { ...options, withLabelsDetails }) };
};

const filterOf = (input: FilterInput): IssueFilter => ({
  ...demandsOf(input),
  not: input.not && demandsOf(input.not),
  state: input.state === 'all' ? null : input.state,
  scope:
    input.scope === 'created-by-me'
      ? 'created_by_me'
      : input.scope === 'assigned-to-me'
        ? 'assigned_to_me'
        : input.scope,
  search: input.search,
  search_in: input.in,
  issue_types: input.issue_type && [input.issue_type],
  confidential: input.confidential,
  created_after: input.created_after,
  created_before: input.created_before,
  updated_after: input.updated_after,
  updated_before: input.updated_before,
  order_by: input.order_by,
  sort: input.sort,
});

const demandsOf = ({ labels, milestone, assignee_id, assignee_username, ...rest }: Demands) => ({
  iids: rest.iids,
  author_id: rest.author_id,
  author_username: rest.author_username,
  labels: labels?.length ? namedOf(labels) : undefined,
  milestones: milestone ? namedOf([milestone]) : undefined,
  assignee_id: assignee_id ? assigneeOf(assignee_id) : undefined,
  assignee_usernames: assignee_username,
  my_reaction_emoji: rest.my_reaction_emoji === undefined ? undefined : reactionOf(rest.my_reaction_emoji),
});

const namedOf = (names: readonly string[]): Named => {
  const [first] = names;
  const word = names.length === 1 ? first?.toLowerCase() : undefined;
  return word === 'none' || word === 'any' ? word : names;
};

const assigneeOf = (given: string): number | NoneOrAny => {
  const word = given.toLowerCase();
  if (word === 'none' || word === 'any') return word;
  if (!/^\d{1,15}$/.test(word)) throw badParameters('assignee_id is invalid');
  return word === '0' ? 'none' : Number(word);
};
