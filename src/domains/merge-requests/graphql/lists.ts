import type { ArgBuilder } from '@pothos/core';
import { GroupRef } from '#domains/groups/graphql.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { ROW } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection, readingAhead } from '#graphql/batched.ts';
import { builder, type Types } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { orNull } from '#graphql/errors.ts';
import { loader } from '#graphql/loaders.ts';
import { selectedNodes } from '#graphql/lookahead.ts';
import { badRequest } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import { MergeRequestConnection, MergeRequestRef, MergeRequestStateEnum } from '../graphql.ts';
import { choiceOf, type MergeRequestFilter, type MergeRequestOrder } from '../lists/filter.ts';
import { listMergeRequestsBelow } from '../lists.ts';
import type { MergeRequestState } from '../model.ts';
import { getMergeRequest, mergeRequestsByIds } from '../queries.ts';
import { mergeRequestColumns } from './columns.ts';
import { plainFields } from './fields.ts';

const SORTS = {
  created_asc: { order_by: 'created_at', sort: 'asc' },
  created_desc: { order_by: 'created_at', sort: 'desc' },
  updated_asc: { order_by: 'updated_at', sort: 'asc' },
  updated_desc: { order_by: 'updated_at', sort: 'desc' },
  title_asc: { order_by: 'title', sort: 'asc' },
  title_desc: { order_by: 'title', sort: 'desc' },
  merged_at_asc: { order_by: 'merged_at', sort: 'asc' },
  merged_at_desc: { order_by: 'merged_at', sort: 'desc' },
  label_priority_asc: { order_by: 'label_priority', sort: 'asc' },
  label_priority_desc: { order_by: 'label_priority', sort: 'desc' },
  milestone_due_asc: { order_by: 'milestone_due', sort: 'asc' },
  milestone_due_desc: { order_by: 'milestone_due', sort: 'desc' },
  popularity_asc: { order_by: 'popularity', sort: 'asc' },
  popularity_desc: { order_by: 'popularity', sort: 'desc' },
  priority_asc: { order_by: 'priority', sort: 'asc' },
  priority_desc: { order_by: 'priority', sort: 'desc' },
  closed_at_asc: { order_by: 'closed_at', sort: 'asc' },
  closed_at_desc: { order_by: 'closed_at', sort: 'desc' },
} as const satisfies Record<string, { order_by: MergeRequestOrder; sort: SortDirection }>;

const MergeRequestSort = builder.enumType('MergeRequestSort', {
  values: {
    created_asc: { value: 'created_asc' },
    created_desc: { value: 'created_desc' },
    updated_asc: { value: 'updated_asc' },
    updated_desc: { value: 'updated_desc' },
    CREATED_ASC: { value: 'created_asc' },
    CREATED_DESC: { value: 'created_desc' },
    UPDATED_ASC: { value: 'updated_asc' },
    UPDATED_DESC: { value: 'updated_desc' },
    TITLE_ASC: { value: 'title_asc' },
    TITLE_DESC: { value: 'title_desc' },
    MERGED_AT_ASC: { value: 'merged_at_asc' },
    MERGED_AT_DESC: { value: 'merged_at_desc' },
    LABEL_PRIORITY_ASC: { value: 'label_priority_asc' },
    LABEL_PRIORITY_DESC: { value: 'label_priority_desc' },
    MILESTONE_DUE_ASC: { value: 'milestone_due_asc' },
    MILESTONE_DUE_DESC: { value: 'milestone_due_desc' },
    POPULARITY_ASC: { value: 'popularity_asc' },
    POPULARITY_DESC: { value: 'popularity_desc' },
    PRIORITY_ASC: { value: 'priority_asc' },
    PRIORITY_DESC: { value: 'priority_desc' },
    CLOSED_AT_ASC: { value: 'closed_at_asc' },
    CLOSED_AT_DESC: { value: 'closed_at_desc' },
  } as const,
});

const NegatedParams = builder.inputType('MergeRequestsResolverNegatedParams', {
  fields: (t) => ({
    labels: t.stringList(),
    milestoneTitle: t.string(),
    authorUsername: t.string(),
    assigneeUsernames: t.stringList(),
    reviewerUsername: t.string(),
  }),
});

interface MergeRequestArguments extends ConnectionArguments {
  readonly state?: MergeRequestState | 'all' | null | undefined;
  readonly iids?: readonly string[] | null | undefined;
  readonly sourceBranches?: readonly string[] | null | undefined;
  readonly targetBranches?: readonly string[] | null | undefined;
  readonly labels?: readonly string[] | null | undefined;
  readonly milestoneTitle?: string | null | undefined;
  readonly authorUsername?: string | null | undefined;
  readonly assigneeUsername?: string | null | undefined;
  readonly reviewerUsername?: string | null | undefined;
  readonly approved?: boolean | null | undefined;
  readonly approvedBy?: readonly string[] | null | undefined;
  readonly approver?: readonly string[] | null | undefined;
  readonly draft?: boolean | null | undefined;
  readonly search?: string | null | undefined;
  readonly createdAfter?: string | null | undefined;
  readonly createdBefore?: string | null | undefined;
  readonly updatedAfter?: string | null | undefined;
  readonly updatedBefore?: string | null | undefined;
  readonly mergedAfter?: string | null | undefined;
  readonly mergedBefore?: string | null | undefined;
  readonly includeSubgroups?: boolean | null | undefined;
  readonly sort?: keyof typeof SORTS | null | undefined;
  readonly not?:
    | {
        readonly labels?: readonly string[] | null | undefined;
        readonly milestoneTitle?: string | null | undefined;
        readonly authorUsername?: string | null | undefined;
        readonly assigneeUsernames?: readonly string[] | null | undefined;
        readonly reviewerUsername?: string | null | undefined;
      }
    | null
    | undefined;
}

const named = (username: string | null | undefined) => (username ? { username } : null);

const people = (usernames: readonly string[] | null | undefined) => {
  if (usernames && usernames.length > MAX_PEOPLE) throw badRequest(`at most ${MAX_PEOPLE} users can be given`);
  return usernames?.map((username) => ({ username }));
};
const MAX_PEOPLE = 5;

const filterOf = (args: MergeRequestArguments): MergeRequestFilter => ({
  ...SORTS[args.sort ?? 'created_desc'],
  state: args.state,
  iids: args.iids?.map(Number).filter(Number.isSafeInteger),
  source_branches: args.sourceBranches,
  target_branches: args.targetBranches,
  labels: args.labels && choiceOf(args.labels),
  milestone: args.milestoneTitle ? choiceOf([args.milestoneTitle]) : null,
  author: named(args.authorUsername),
  assignees: args.assigneeUsername ? [{ username: args.assigneeUsername }] : null,
  reviewer: named(args.reviewerUsername),
  approved: args.approved,
  approved_by: people(args.approvedBy),
  approvers: people(args.approver),
  draft: args.draft,
  search: args.search,
  created_after: args.createdAfter,
  created_before: args.createdBefore,
  updated_after: args.updatedAfter,
  updated_before: args.updatedBefore,
  merged_after: args.mergedAfter,
  merged_before: args.mergedBefore,
  not: args.not
    ? {
        labels: args.not.labels && choiceOf(args.not.labels),
        milestone: args.not.milestoneTitle ? choiceOf([args.not.milestoneTitle]) : null,
        author: named(args.not.authorUsername),
        assignees: args.not.assigneeUsernames?.map((username) => ({ username })),
        reviewer: named(args.not.reviewerUsername),
      }
    : null,
});

/** Reads all parents of a level in one statement, and only the requested columns of each row. */
const below = (kind: Parameters<typeof listMergeRequestsBelow>[1]) =>
  batchedConnection((ctx, args: MergeRequestArguments, info) => {
    const selection = selectedNodes(info);
    const list = listMergeRequestsBelow(
      ctx,
      kind === 'group' && args.includeSubgroups ? 'subgroups' : kind,
      filterOf(args),
      mergeRequestColumns(selection),
    );
    if (!selection.author) return list;
    return readingAhead(list, (rows) =>
      loadUser.ahead(
        ctx,
        rows.flatMap(({ author_id }) => author_id ?? []),
      ),
    );
  }, plainFields);
const ofProject = below('project');
const ofGroup = below('group');

const commonArgs = (t: ArgBuilder<Types>) => ({
  state: t({ type: MergeRequestStateEnum }),
  iids: t.stringList(),
  sourceBranches: t.stringList(),
  targetBranches: t.stringList(),
  labels: t.stringList({ description: 'Requires all of these. A single `None` or `Any` has its own meaning.' }),
  milestoneTitle: t.string({ description: '`None` and `Any` have their own meaning.' }),
  authorUsername: t.string(),
  assigneeUsername: t.string(),
  reviewerUsername: t.string(),
  approved: t.boolean({ description: 'Whether anybody has approved it.' }),
  approvedBy: t.stringList({ description: 'User names. All of them have approved it.' }),
  approver: t.stringList({ description: 'User names. An approval rule names all of them.' }),
  draft: t.boolean(),
  search: t.string(),
  createdAfter: t({ type: 'Time' }),
  createdBefore: t({ type: 'Time' }),
  updatedAfter: t({ type: 'Time' }),
  updatedBefore: t({ type: 'Time' }),
  mergedAfter: t({ type: 'Time' }),
  mergedBefore: t({ type: 'Time' }),
  not: t({ type: NegatedParams }),
  sort: t({ type: MergeRequestSort, defaultValue: 'created_desc' }),
});

projectField('mergeRequests', JUDGED, (t) =>
  t.connection(
    {
      type: MergeRequestRef,
      args: commonArgs(t.arg),
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_merge_request') ? ofProject(project.id, args, ctx, info) : null,
    },
    MergeRequestConnection,
  ),
);

projectField('mergeRequest', ROW, (t) =>
  t.field({
    type: MergeRequestRef,
    args: { iid: t.arg.string({ required: true }) },
    resolve: (project, { iid }, ctx) =>
      can(ctx, project, 'read_merge_request') && /^\d{1,9}$/.test(iid)
        ? orNull(getMergeRequest(ctx, project, Number(iid)))
        : null,
  }),
);

builder.objectField(GroupRef, 'mergeRequests', (t) =>
  t.connection(
    {
      type: MergeRequestRef,
      description: 'Merge requests in the projects of the group that the caller can see.',
      args: { ...commonArgs(t.arg), includeSubgroups: t.arg.boolean({ defaultValue: false }) },
      resolve: (group, args, ctx, info) => ofGroup(group.id, args, ctx, info),
    },
    MergeRequestConnection,
  ),
);

for (const [name, kind] of [
  ['authoredMergeRequests', 'author'],
  ['assignedMergeRequests', 'assignee'],
  ['reviewRequestedMergeRequests', 'reviewer'],
] as const) {
  const ofUser = below(kind);
  builder.interfaceField(UserRef, name, (t) =>
    t.connection(
      {
        type: MergeRequestRef,
        description: 'Merge requests that the caller can see.',
        args: commonArgs(t.arg),
        resolve: (user, args, ctx, info) => ofUser(user.id, args, ctx, info),
      },
      MergeRequestConnection,
    ),
  );
}

/** Loads a merge request that the caller can see. */
export const loadMergeRequest = loader(mergeRequestsByIds);

builder.queryField('mergeRequest', (t) =>
  t.field({
    type: MergeRequestRef,
    args: { id: t.arg({ type: 'MergeRequestID', required: true }) },
    resolve: (_root, { id }, ctx) => loadMergeRequest(ctx, id),
  }),
);
