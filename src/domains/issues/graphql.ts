import { REPORTER } from '#domains/access/model.ts';
import { LabelConnection, LabelRef, loadIssueLabels } from '#domains/labels/graphql.ts';
import { loadHtml } from '#domains/markdown/graphql.ts';
import { loadMilestone, MilestoneRef } from '#domains/milestones/graphql.ts';
import { subscribedAmong } from '#domains/planning/subscriptions.ts';
import { taskCompletion } from '#domains/planning/tasks.ts';
import { humanDuration } from '#domains/planning/time-tracking.ts';
import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { loadUser, UserConnection, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import {
  canUpdateIssue,
  descriptionProse,
  ISSUE_STATES,
  ISSUE_TYPES,
  type IssueDetails,
  type IssueRow,
  issueReference,
  issueWebUrl,
  titleProse,
} from './model.ts';
import { discussionCountsByIssueIds, issueDetailsByIds, issueEffortsByIds, issuesByIds } from './queries.ts';

/** Loads the issue with this id if the caller can see it. Batches concurrent calls. */
export const loadIssue: (ctx: Context, id: number) => Promise<IssueRow | null> = loader(issuesByIds);
const loadDetails = loader(issueDetailsByIds);
const loadEffort = loader(issueEffortsByIds);
const loadDiscussionCounts = loader(discussionCountsByIssueIds);
const loadSubscribed = loader(async (ctx: Context, ids: readonly number[]) => {
  const subscribed = await subscribedAmong(ctx, 'issue', ids);
  return new Map([...subscribed].map((id) => [id, true]));
});

const IssueStateEnum = builder.enumType('IssueState', { values: [...ISSUE_STATES, 'locked', 'all'] as const });

export const IssueTypeEnum = builder.enumType('IssueType', { values: upperCase(ISSUE_TYPES) });

/** Reads a value from the issue's project, which exists if the issue is visible. */
const ofProject = async <T>(ctx: Context, issue: IssueRow, read: (project: ProjectRow) => T): Promise<T | null> => {
  const project = await loadProject(ctx, issue.project_id);
  return project && read(project);
};

const ofDetails = async (ctx: Context, issue: IssueRow, read: (details: IssueDetails) => number): Promise<number> => {
  const details = await loadDetails(ctx, issue.id);
  return details ? read(details) : 0;
};

/** Internal comments only count for callers who can read them. */
const commentCount = async (ctx: Context, issue: IssueRow, kind: 'notes' | 'discussions'): Promise<number> => {
  const ofNotes = async () => {
    const details = await loadDetails(ctx, issue.id);
    return { open: details?.open_notes_count ?? 0, internal: details?.internal_notes_count ?? 0 };
  };
  const [project, counts] = await Promise.all([
    loadProject(ctx, issue.project_id),
    kind === 'notes' ? ofNotes() : loadDiscussionCounts(ctx, issue.id),
  ]);
  if (!counts) return 0;
  return counts.open + (project && project.access_level >= REPORTER ? counts.internal : 0);
};

const TaskCompletionStatus = builder
  .objectRef<{ readonly count: number; readonly completed_count: number }>('TaskCompletionStatus')
  .implement({
    fields: (t) => ({
      count: t.exposeInt('count', { nullable: false }),
      completedCount: t.exposeInt('completed_count', { nullable: false }),
    }),
  });

const IssuePermissions = builder.objectRef<IssueRow>('IssuePermissions').implement({
  description: 'What the caller may do with the issue.',
  fields: (t) => {
    const may = (judge: (ctx: Context, project: ProjectRow, issue: IssueRow) => boolean) =>
      t.boolean({
        nullable: false,
        resolve: async (issue, _args, ctx) =>
          (await ofProject(ctx, issue, (project) => judge(ctx, project, issue))) ?? false,
      });
    return {
      readIssue: may(() => true),
      updateIssue: may(canUpdateIssue),
      adminIssue: may((ctx, project) => can(ctx, project, 'admin_issue')),
      destroyIssue: may((ctx, project) => can(ctx, project, 'remove_issue')),
      createNote: may((ctx, project) => can(ctx, project, 'create_note')),
    };
  },
});

/** An issue. Downstream domains add fields with `builder.objectField(IssueRef, ...)`. */
export const IssueRef = builder.objectRef<IssueRow>('Issue').implement({
  description: 'An issue of a project.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (issue) => gid('Issue', issue.id) }),
    iid: t.id({ nullable: false, resolve: (issue) => String(issue.iid) }),
    title: t.exposeString('title', { nullable: false }),
    description: t.exposeString('description'),
    titleHtml: t.string({ resolve: (issue, _args, ctx) => loadHtml(ctx, titleProse(issue)) }),
    descriptionHtml: t.string({ resolve: (issue, _args, ctx) => loadHtml(ctx, descriptionProse(issue)) }),
    state: t.field({
      type: IssueStateEnum,
      nullable: false,
      resolve: ({ state }) => (state === 'closed' ? 'closed' : 'opened'),
    }),
    confidential: t.exposeBoolean('confidential', { nullable: false }),
    type: t.field({
      type: IssueTypeEnum,
      resolve: ({ issue_type }) => ISSUE_TYPES.find((type) => type === issue_type),
    }),
    author: t.field({
      type: UserRef,
      description: 'Null if the account has been deleted.',
      resolve: ({ author_id }, _args, ctx) => (author_id === null ? null : loadUser(ctx, author_id)),
    }),
    closedBy: t.field({
      type: UserRef,
      resolve: ({ closed_by_id }, _args, ctx) => (closed_by_id === null ? null : loadUser(ctx, closed_by_id)),
    }),
    updatedBy: t.field({
      type: UserRef,
      resolve: ({ updated_by_id }, _args, ctx) => (updated_by_id === null ? null : loadUser(ctx, updated_by_id)),
    }),
    assignees: t.connection(
      {
        type: UserRef,
        extensions: { usualSize: 5 },
        resolve: (issue, args, ctx, info) =>
          connection(args, info, async (page) => {
            const effort = await loadEffort(ctx, issue.id);
            const people = await Promise.all((effort?.assignee_ids ?? []).map((id) => loadUser(ctx, id)));
            return pageOfAll(
              page,
              people.filter((person) => person !== null),
              (person) => [person.id],
            );
          }),
      },
      UserConnection,
    ),
    labels: t.connection(
      {
        type: LabelRef,
        extensions: { usualSize: 5 },
        resolve: (issue, args, ctx, info) =>
          connection(args, info, async (page) =>
            pageOfAll(page, (await loadIssueLabels(ctx, issue.id)) ?? [], (label) => [label.title, label.id]),
          ),
      },
      LabelConnection,
    ),
    milestone: t.field({
      type: MilestoneRef,
      resolve: ({ milestone_id }, _args, ctx) => (milestone_id === null ? null : loadMilestone(ctx, milestone_id)),
    }),
    project: t.field({ type: ProjectRef, resolve: (issue, _args, ctx) => loadProject(ctx, issue.project_id) }),
    projectId: t.exposeInt('project_id', { nullable: false }),
    dueDate: t.field({ type: 'Time', resolve: ({ due_date }) => due_date && `${due_date}T00:00:00Z` }),
    weight: t.exposeInt('weight'),
    relativePosition: t.exposeInt('relative_position'),
    severity: t.exposeString('severity'),
    healthStatus: t.exposeString('health_status'),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
    closedAt: t.expose('closed_at', { type: 'Time' }),
    webUrl: t.string({
      resolve: (issue, _args, ctx) => ofProject(ctx, issue, (project) => issueWebUrl(ctx, project, issue)),
    }),
    webPath: t.string({
      resolve: (issue, _args, ctx) =>
        ofProject(ctx, issue, (project) => new URL(issueWebUrl(ctx, project, issue)).pathname),
    }),
    reference: t.string({
      args: { full: t.arg.boolean({ defaultValue: false }) },
      resolve: (issue, { full }, ctx) =>
        full ? ofProject(ctx, issue, (project) => issueReference(issue, project)) : issueReference(issue),
    }),
    userNotesCount: t.int({ nullable: false, resolve: (issue, _args, ctx) => commentCount(ctx, issue, 'notes') }),
    userDiscussionsCount: t.int({
      nullable: false,
      resolve: (issue, _args, ctx) => commentCount(ctx, issue, 'discussions'),
    }),
    upvotes: t.int({
      nullable: false,
      resolve: (issue, _args, ctx) => ofDetails(ctx, issue, (details) => details.upvotes),
    }),
    downvotes: t.int({
      nullable: false,
      resolve: (issue, _args, ctx) => ofDetails(ctx, issue, (details) => details.downvotes),
    }),
    discussionLocked: t.boolean({ nullable: false, resolve: (issue) => issue.discussion_locked ?? false }),
    subscribed: t.boolean({
      nullable: false,
      resolve: async (issue, _args, ctx) => (await loadSubscribed(ctx, issue.id)) ?? false,
    }),
    timeEstimate: t.exposeInt('time_estimate', { nullable: false }),
    totalTimeSpent: t.int({
      nullable: false,
      resolve: (issue, _args, ctx) => ofDetails(ctx, issue, (details) => details.total_time_spent),
    }),
    humanTimeEstimate: t.string({ resolve: (issue) => humanDuration(issue.time_estimate) }),
    humanTotalTimeSpent: t.string({
      resolve: async (issue, _args, ctx) =>
        humanDuration(await ofDetails(ctx, issue, (details) => details.total_time_spent)),
    }),
    taskCompletionStatus: t.field({
      type: TaskCompletionStatus,
      nullable: false,
      resolve: (issue) => taskCompletion(issue.description),
    }),
    userPermissions: t.field({ type: IssuePermissions, nullable: false, resolve: (issue) => issue }),
  }),
});

export const IssueConnection = builder.connectionObject(
  { type: IssueRef, name: 'IssueConnection' },
  { name: 'IssueEdge' },
);
