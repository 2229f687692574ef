import { GroupRef } from '#domains/groups/graphql.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, listConnection } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import type { SortDirection } from '#platform/paging.ts';
import { IssueConnection, IssueRef, IssueTypeEnum, loadIssue } from '../graphql.ts';
import { type IssueFilter, type Named, type NoneOrAny, reactionOf } from '../lists/filter.ts';
import { listIssues, listIssuesBelow } from '../lists.ts';
import { ISSUE_ORDERS, type IssueOrder, type IssueRow, type IssueState, type IssueType } from '../model.ts';
import { type IssueCounts, issueCountsByProjectIds } from '../queries.ts';

const IssueSort = builder.enumType('IssueSort', {
  description: 'A column and a direction. Older queries use some values in lower case.',
  values: {
    CREATED_ASC: { value: 'created_at asc' },
    CREATED_DESC: { value: 'created_at desc' },
    UPDATED_ASC: { value: 'updated_at asc' },
    UPDATED_DESC: { value: 'updated_at desc' },
    TITLE_ASC: { value: 'title asc' },
    TITLE_DESC: { value: 'title desc' },
    DUE_DATE_ASC: { value: 'due_date asc' },
    DUE_DATE_DESC: { value: 'due_date desc' },
    WEIGHT_ASC: { value: 'weight asc' },
    WEIGHT_DESC: { value: 'weight desc' },
    RELATIVE_POSITION_ASC: { value: 'relative_position asc' },
    created_asc: { value: 'created_at asc' },
    created_desc: { value: 'created_at desc' },
    updated_asc: { value: 'updated_at asc' },
    updated_desc: { value: 'updated_at desc' },
  } as const satisfies Record<string, { value: Sorting }>,
});
type Sorting = `${IssueOrder} ${SortDirection}`;

const IssuableState = builder.enumType('IssuableState', { values: ['opened', 'closed', 'locked', 'all'] as const });

const NegatedIssueFilter = builder.inputType('NegatedIssueFilterInput', {
  fields: (t) => ({
    iids: t.stringList(),
    labelName: t.stringList(),
    milestoneTitle: t.stringList(),
    authorUsername: t.string(),
    assigneeUsernames: t.stringList(),
  }),
});

const arguments_ = (t: Parameters<Parameters<typeof builder.queryField>[1]>[0]['arg']) => ({
  iid: t.string(),
  iids: t.stringList(),
  state: t({ type: IssuableState }),
  labelName: t.stringList({ description: 'Requires all of these. A single `None` or `Any` has its own meaning.' }),
  milestoneTitle: t.stringList({ description: 'Requires one of these. A single `None` or `Any` has its own meaning.' }),
  authorUsername: t.string(),
  assigneeUsername: t.string(),
  assigneeUsernames: t.stringList({ description: 'Requires one of these.' }),
  assigneeId: t.string({ description: 'The id of a user, `None` (also `0`) or `Any`.' }),
  search: t.string({ description: 'Matches title and description.' }),
  types: t({ type: [IssueTypeEnum] }),
  confidential: t.boolean(),
  myReactionEmoji: t.string({ description: 'Issues to which the caller gave this emoji; also `none` and `any`.' }),
  createdAfter: t({ type: 'Time' }),
  createdBefore: t({ type: 'Time' }),
  updatedAfter: t({ type: 'Time' }),
  updatedBefore: t({ type: 'Time' }),
  not: t({ type: NegatedIssueFilter }),
  sort: t({ type: IssueSort }),
});

type Maybe<T> = T | null | undefined;

interface IssueArguments extends ConnectionArguments {
  readonly iid?: Maybe<string>;
  readonly iids?: Maybe<readonly string[]>;
  readonly state?: Maybe<IssueState | 'locked' | 'all'>;
  readonly labelName?: Maybe<readonly string[]>;
  readonly milestoneTitle?: Maybe<readonly string[]>;
  readonly authorUsername?: Maybe<string>;
  readonly assigneeUsername?: Maybe<string>;
  readonly assigneeUsernames?: Maybe<readonly string[]>;
  readonly assigneeId?: Maybe<string>;
  readonly search?: Maybe<string>;
  readonly types?: Maybe<readonly IssueType[]>;
  readonly confidential?: Maybe<boolean>;
  readonly myReactionEmoji?: Maybe<string>;
  readonly createdAfter?: Maybe<string>;
  readonly createdBefore?: Maybe<string>;
  readonly updatedAfter?: Maybe<string>;
  readonly updatedBefore?: Maybe<string>;
  readonly not?: Maybe<{
    readonly iids?: Maybe<readonly string[]>;
    readonly labelName?: Maybe<readonly string[]>;
    readonly milestoneTitle?: Maybe<readonly string[]>;
    readonly authorUsername?: Maybe<string>;
    readonly assigneeUsernames?: Maybe<readonly string[]>;
  }>;
  readonly sort?: Maybe<Sorting>;
  readonly includeSubgroups?: Maybe<boolean>;
}

const filterOf = (args: IssueArguments): IssueFilter => ({
  iids: args.iid == null ? numbers(args.iids) : numbers([args.iid]),
  state: args.state === 'opened' || args.state === 'closed' ? args.state : null,
  labels: namedOf(args.labelName),
  milestones: namedOf(args.milestoneTitle),
  author_username: args.authorUsername,
  assignee_id: args.assigneeId == null ? null : assigneeOf(args.assigneeId),
  assignee_usernames: args.assigneeUsername == null ? args.assigneeUsernames : [args.assigneeUsername],
  search: args.search,
  issue_types: args.types,
  confidential: args.confidential,
  my_reaction_emoji: args.myReactionEmoji == null ? null : reactionOf(args.myReactionEmoji),
  created_after: args.createdAfter,
  created_before: args.createdBefore,
  updated_after: args.updatedAfter,
  updated_before: args.updatedBefore,
  ...(args.not
    ? {
        not: {
          iids: numbers(args.not.iids),
          labels: namedOf(args.not.labelName),
          milestones: namedOf(args.not.milestoneTitle),
          author_username: args.not.authorUsername,
          assignee_usernames: args.not.assigneeUsernames,
        },
      }
    : {}),
  ...orderOf(args.sort),
});

const orderOf = (sorting: Maybe<Sorting>) => ({
  order_by: ISSUE_ORDERS.find((order) => sorting?.startsWith(`${order} `)),
  sort: sorting?.endsWith(' asc') ? ('asc' as const) : ('desc' as const),
});

/** Texts that are not numbers match nothing. */
const numbers = (texts: Maybe<readonly string[]>): number[] | null =>
  texts == null ? null : texts.map((text) => (/^\d{1,9}$/.test(text) ? Number(text) : -1));

const namedOf = (names: Maybe<readonly string[]>): Named | null => {
  if (!names?.length) return null;
  const word = names.length === 1 ? names[0]?.toLowerCase() : undefined;
  return word === 'none' || word === 'any' ? word : names;
};

const assigneeOf = (given: string): number | NoneOrAny => {
  const word = given.toLowerCase();
  if (word === 'none' || word === 'any') return word;
  return word === '0' ? 'none' : (numbers([word])?.[0] ?? -1);
};

const projectIssues = batchedConnection((ctx, args: IssueArguments) => listIssuesBelow(ctx, 'project', filterOf(args)));
const groupIssues = batchedConnection((ctx, args: IssueArguments) =>
  listIssuesBelow(ctx, args.includeSubgroups ? 'group' : 'group_alone', filterOf(args)),
);

projectField('issues', JUDGED, (t) =>
  t.connection(
    {
      type: IssueRef,
      args: arguments_(t.arg),
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_issue') ? projectIssues(project.id, args, ctx, info) : null,
    },
    IssueConnection,
  ),
);

builder.objectField(GroupRef, 'issues', (t) =>
  t.connection(
    {
      type: IssueRef,
      args: { ...arguments_(t.arg), includeSubgroups: t.arg.boolean({ defaultValue: false }) },
      resolve: (group, args, ctx, info) => groupIssues(group.id, args, ctx, info),
    },
    IssueConnection,
  ),
);

builder.queryField('issues', (t) =>
  t.connection(
    {
      type: IssueRef,
      description: 'Issues of all projects that the caller can see.',
      args: arguments_(t.arg),
      resolve: (_root, args, ctx, info) => listConnection(args, info, listIssues(ctx, 'everywhere', filterOf(args))),
    },
    IssueConnection,
  ),
);

builder.queryField('issue', (t) =>
  t.field({
    type: IssueRef,
    args: { id: t.arg({ type: 'IssueID', required: true }) },
    resolve: (_root, { id }, ctx) => loadIssue(ctx, id),
  }),
);

/** Keys are `<project id>:<iid>`. Runs one statement per iid, regardless of the number of projects. */
const loadByIid = loader(async (ctx: Context, keys: readonly string[]): Promise<Map<string, IssueRow>> => {
  const found = new Map<string, IssueRow>();
  const wanted = keys.map((key) => key.split(':').map(Number));
  const byIid = Map.groupBy(wanted, ([, iid]) => iid ?? -1);
  await Promise.all(
    [...byIid].map(async ([iid, group]) => {
      const projectIds = group.flatMap(([projectId]) => projectId ?? []);
      const rows = await listIssuesBelow(ctx, 'project', { iids: [iid] }).rows(projectIds, { limit: 1 });
      for (const [projectId, [issue]] of rows) if (issue) found.set(`${projectId}:${iid}`, issue);
    }),
  );
  return found;
});

projectField('issue', ['id'], (t) =>
  t.field({
    type: IssueRef,
    args: { iid: t.arg.string({ required: true }) },
    resolve: (project, { iid }, ctx) => (/^\d{1,9}$/.test(iid) ? loadByIid(ctx, `${project.id}:${Number(iid)}`) : null),
  }),
);

const loadCounts = loader(issueCountsByProjectIds);

const IssueStatusCounts = builder.objectRef<IssueCounts>('IssueStatusCountsType').implement({
  description: 'The number of issues in each state.',
  fields: (t) => ({
    all: t.int({ resolve: ({ opened, closed }) => opened + closed }),
    opened: t.exposeInt('opened'),
    closed: t.exposeInt('closed'),
  }),
});

projectField('issueStatusCounts', JUDGED, (t) =>
  t.field({
    type: IssueStatusCounts,
    resolve: async (project, _args, ctx) =>
      can(ctx, project, 'read_issue')
        ? ((await loadCounts(ctx, project.id)) ?? { id: project.id, opened: 0, closed: 0 })
        : null,
  }),
);
