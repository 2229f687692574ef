import { PipelineConnection, PipelineRef } from '#domains/ci/graphql.ts';
import { LabelConnection, LabelRef, loadMergeRequestLabels } from '#domains/labels/graphql.ts';
import { loadMilestone, MilestoneRef } from '#domains/milestones/graphql.ts';
import { taskCompletion } from '#domains/planning/tasks.ts';
import { humanDuration } from '#domains/planning/time-tracking.ts';
import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { can, type ProjectAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { loadUser, UserConnection, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import { type ConnectionArguments, connection, pageOfAll } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import type { Selection } from '#graphql/lookahead.ts';
import type { Context } from '#platform/context.ts';
import { descriptionHtml } from '#platform/description-html.ts';
import {
  DETAILED_MERGE_STATUSES,
  detailedMergeStatus,
  fullReference,
  MERGE_REQUEST_STATES,
  mergeRequestWebUrl,
  shownMergeStatus,
  squashOnMerge,
  stateOf,
} from './model.ts';
import {
  type DiffCommitRow,
  type DiffStat,
  diffStatsByDiffIds,
  diffsByMergeRequestIds,
  headPipelinesByIds,
  listDiffCommitsBelow,
  listPipelinesBelowMergeRequests,
  type MergeRequestColumn,
  type MergeRequestDiffRow,
  type MergeRequestRow,
  type MergeRequestStats,
  mergeRequestStatsByIds,
} from './queries.ts';

/** A merge request. Downstream domains add fields with `builder.objectField(MergeRequestRef, ...)`. */
export const MergeRequestRef = builder.objectRef<MergeRequestRow>('MergeRequest');
export const MergeRequestConnection = builder.connectionObject(
  { type: MergeRequestRef, name: 'MergeRequestConnection' },
  { name: 'MergeRequestEdge' },
);

export const MergeRequestStateEnum = builder.enumType('MergeRequestState', {
  values: [...MERGE_REQUEST_STATES, 'all'] as const,
});

const upperCase = <const T extends string>(words: readonly T[]) => {
  const values: Record<string, { readonly value: T }> = {};
  for (const word of words) values[word.toUpperCase()] = { value: word };
  return values;
};
const MergeStatusEnum = builder.enumType('MergeStatus', {
  values: {
    UNCHECKED: { value: 'unchecked' },
    CHECKING: { value: 'checking' },
    CAN_BE_MERGED: { value: 'can_be_merged' },
    CANNOT_BE_MERGED: { value: 'cannot_be_merged' },
    CANNOT_BE_MERGED_RECHECK: { value: 'cannot_be_merged_recheck' },
  } as const,
});
const DetailedMergeStatusEnum = builder.enumType('DetailedMergeStatus', { values: upperCase(DETAILED_MERGE_STATUSES) });

const loadStats: (ctx: Context, id: number) => Promise<MergeRequestStats | null> = loader(mergeRequestStatsByIds);
const loadDiff: (ctx: Context, id: number) => Promise<MergeRequestDiffRow | null> = loader(diffsByMergeRequestIds);
const loadDiffStats = loader(diffStatsByDiffIds);
const loadHeadPipeline = loader(headPipelinesByIds);

/** The columns that each field of MergeRequest reads. Fields that are not listed read the whole row. */
const columnsOfField = new Map<string, readonly MergeRequestColumn[]>([
  ['__typename', []],
  ['id', ['id']],
  ['iid', ['iid']],
  ['title', ['title']],
  ['description', ['description']],
  ['descriptionHtml', ['description']],
  ['state', ['state']],
  ['draft', ['draft']],
  ['sourceBranch', ['source_branch']],
  ['targetBranch', ['target_branch']],
  ['projectId', ['project_id']],
  ['targetProjectId', ['project_id']],
  ['project', ['project_id']],
  ['author', ['author_id']],
  ['milestone', ['milestone_id']],
  ['labels', ['id']],
  ['assignees', ['id']],
  ['reviewers', ['id']],
  ['createdAt', ['created_at']],
  ['updatedAt', ['updated_at']],
  ['mergedAt', ['merged_at']],
  ['closedAt', ['closed_at']],
  ['webUrl', ['iid', 'project_path']],
  ['webPath', ['iid', 'project_path']],
  ['reference', ['iid', 'project_path']],
  ['upvotes', ['id']],
  ['downvotes', ['id']],
  ['userNotesCount', ['id']],
]);
const columnsOfSelection = new WeakMap<Selection, readonly MergeRequestColumn[] | undefined>();

/** Returns the columns to read for a selection; undefined for all. */
export const mergeRequestColumns = (selection: Selection): readonly MergeRequestColumn[] | undefined => {
  if (columnsOfSelection.has(selection)) return columnsOfSelection.get(selection);
  const columns = new Set<MergeRequestColumn>(['id']);
  let isKnown = true;
  for (const field of Object.keys(selection)) {
    const read = columnsOfField.get(field);
    if (!read) isKnown = false;
    for (const column of read ?? []) columns.add(column);
  }
  const found = isKnown ? [...columns] : undefined;
  columnsOfSelection.set(selection, found);
  return found;
};

const DiffRefs = builder.objectRef<MergeRequestDiffRow>('DiffRefs').implement({
  fields: (t) => ({
    baseSha: t.exposeString('base_commit_sha'),
    headSha: t.exposeString('head_commit_sha'),
    startSha: t.exposeString('start_commit_sha'),
  }),
});

const DiffStats = builder.objectRef<DiffStat>('DiffStats').implement({
  description: 'Lines added and removed in a file.',
  fields: (t) => ({
    path: t.exposeString('path', { nullable: false }),
    additions: t.exposeInt('additions', { nullable: false }),
    deletions: t.exposeInt('deletions', { nullable: false }),
  }),
});

const DiffStatsSummary = builder
  .objectRef<{ readonly additions: number; readonly deletions: number; readonly files: number }>('DiffStatsSummary')
  .implement({
    fields: (t) => ({
      additions: t.exposeInt('additions', { nullable: false }),
      deletions: t.exposeInt('deletions', { nullable: false }),
      changes: t.int({ nullable: false, resolve: ({ additions, deletions }) => additions + deletions }),
      fileCount: t.exposeInt('files', { nullable: false }),
    }),
  });

const TaskCompletionStatus = builder
  .objectRef<ReturnType<typeof taskCompletion>>('MergeRequestTaskCompletionStatus')
  .implement({
    fields: (t) => ({
      count: t.exposeInt('count', { nullable: false }),
      completedCount: t.exposeInt('completed_count', { nullable: false }),
    }),
  });

const MergeRequestCommit = builder.objectRef<DiffCommitRow>('MergeRequestCommit').implement({
  description: 'A commit as stored with the merge request, even if the repository no longer has it.',
  fields: (t) => ({
    sha: t.exposeString('sha', { nullable: false }),
    shortId: t.string({ nullable: false, resolve: ({ sha }) => sha.slice(0, 8) }),
    title: t.string({ resolve: ({ message }) => message && (message.split('\n', 1)[0] ?? '') }),
    message: t.exposeString('message'),
    authorName: t.exposeString('author_name'),
    authorEmail: t.exposeString('author_email'),
    authoredDate: t.expose('authored_date', { type: 'Time' }),
    committerName: t.exposeString('committer_name'),
    committerEmail: t.exposeString('committer_email'),
    committedDate: t.expose('committed_date', { type: 'Time' }),
  }),
});
const MergeRequestCommitConnection = builder.connectionObject(
  { type: MergeRequestCommit, name: 'MergeRequestCommitConnection' },
  { name: 'MergeRequestCommitEdge' },
);

interface Permitted {
  readonly project: ProjectRow;
}
const MergeRequestPermissions = builder.objectRef<Permitted>('MergeRequestPermissions').implement({
  description: 'What the caller may do with the merge request.',
  fields: (t) => {
    const may = (ability: ProjectAbility) =>
      t.boolean({ nullable: false, resolve: ({ project }, _args, ctx) => can(ctx, project, ability) });
    return {
      readMergeRequest: may('read_merge_request'),
      adminMergeRequest: may('admin_merge_request'),
      updateMergeRequest: may('admin_merge_request'),
      createNote: may('create_note'),
      removeMergeRequest: may('remove_merge_request'),
    };
  },
});

const commitsBelow = batchedConnection((ctx, _args: ConnectionArguments) => listDiffCommitsBelow(ctx));
const pipelinesBelow = batchedConnection((ctx, _args: ConnectionArguments) => listPipelinesBelowMergeRequests(ctx));

/** Returns the project if the caller can see its pipelines. */
const withPipelines = async (ctx: Context, projectId: number): Promise<ProjectRow | null> => {
  const project = await loadProject(ctx, projectId);
  return project && can(ctx, project, 'read_pipeline') ? project : null;
};

const statsOf = async (ctx: Context, { id }: MergeRequestRow): Promise<MergeRequestStats> =>
  (await loadStats(ctx, id)) ?? {
    id,
    assignee_ids: [],
    reviewer_ids: [],
    approver_ids: [],
    upvotes: 0,
    downvotes: 0,
    user_notes_count: 0,
    user_discussions_count: 0,
    unresolved_discussions: 0,
    total_time_spent: 0,
    is_empty: false,
  };

const diffStatsOf = async (ctx: Context, { id }: MergeRequestRow): Promise<readonly DiffStat[] | null> => {
  const diff = await loadDiff(ctx, id);
  return diff && ((await loadDiffStats(ctx, diff.id)) ?? []);
};

/** Reading every line of a diff costs more than reading a row. */
const READS_DIFF = { extensions: { cost: 5 } } as const;

MergeRequestRef.implement({
  description: 'A merge request: commits of one branch to be merged into another.',
  fields: (t) => {
    const person = (column: 'author_id' | 'merge_user_id' | 'closed_by_id') =>
      t.field({
        type: UserRef,
        nullable: true,
        resolve: (row, _args, ctx) => (row[column] === null ? null : loadUser.find(ctx, row[column])),
      });
    const people = (column: 'assignee_ids' | 'reviewer_ids' | 'approver_ids') =>
      t.connection(
        {
          type: UserRef,
          resolve: (row, args, ctx, info) =>
            connection(args, info, async (page) => {
              const ids = (await statsOf(ctx, row))[column];
              const users = await Promise.all(ids.map((id) => loadUser(ctx, id)));
              return pageOfAll(
                page,
                users.filter((user) => user !== null),
                (user) => [user.id],
              );
            }),
        },
        UserConnection,
      );
    const stat = (of: (stats: MergeRequestStats) => number) =>
      t.int({ nullable: false, resolve: async (row, _args, ctx) => of(await statsOf(ctx, row)) });
    return {
      id: t.id({ nullable: false, resolve: ({ id }) => gid('MergeRequest', id) }),
      iid: t.string({ nullable: false, resolve: ({ iid }) => String(iid) }),
      title: t.exposeString('title', { nullable: false }),
      description: t.exposeString('description'),
      descriptionHtml: t.string({ resolve: ({ description }) => descriptionHtml(description) }),
      state: t.field({ type: MergeRequestStateEnum, nullable: false, resolve: stateOf }),
      draft: t.exposeBoolean('draft', { nullable: false }),
      sourceBranch: t.exposeString('source_branch', { nullable: false }),
      targetBranch: t.exposeString('target_branch', { nullable: false }),
      sourceProject: t.field({
        type: ProjectRef,
        resolve: ({ source_project_id: id }, _args, ctx) => (id === null ? null : loadProject(ctx, id)),
      }),
      sourceProjectId: t.exposeInt('source_project_id'),
      targetProject: t.field({
        type: ProjectRef,
        resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id),
      }),
      targetProjectId: t.exposeInt('project_id', { nullable: false }),
      project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
      projectId: t.exposeInt('project_id', { nullable: false }),
      author: person('author_id'),
      mergeUser: person('merge_user_id'),
      closedBy: person('closed_by_id'),
      assignees: people('assignee_ids'),
      reviewers: people('reviewer_ids'),
      approvedBy: people('approver_ids'),
      labels: t.connection(
        {
          type: LabelRef,
          resolve: (row, args, ctx, info) =>
            connection(args, info, async (page) =>
              pageOfAll(page, (await loadMergeRequestLabels(ctx, row.id)) ?? [], (label) => [label.title, label.id]),
            ),
        },
        LabelConnection,
      ),
      milestone: t.field({
        type: MilestoneRef,
        resolve: ({ milestone_id: id }, _args, ctx) => (id === null ? null : loadMilestone(ctx, id)),
      }),
      createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
      updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
      mergedAt: t.expose('merged_at', { type: 'Time' }),
      closedAt: t.expose('closed_at', { type: 'Time' }),
      preparedAt: t.expose('prepared_at', { type: 'Time' }),
      mergeStatusEnum: t.field({
        type: MergeStatusEnum,
        resolve: shownMergeStatus,
      }),
      detailedMergeStatus: t.field({
        type: DetailedMergeStatusEnum,
        resolve: async (row, _args, ctx) => {
          const [project, stats, pipeline] = await Promise.all([
            loadProject(ctx, row.project_id),
            statsOf(ctx, row),
            loadHeadPipeline(ctx, row.id),
          ]);
          return project && detailedMergeStatus(row, stats, project, pipeline);
        },
      }),
      conflicts: t.boolean({ nullable: false, resolve: ({ merge_status }) => merge_status === 'cannot_be_merged' }),
      mergeError: t.exposeString('merge_error'),
      mergeCommitSha: t.exposeString('merge_commit_sha'),
      rebaseCommitSha: t.exposeString('rebase_commit_sha'),
      squash: t.exposeBoolean('squash', { nullable: false }),
      squashOnMerge: t.boolean({
        resolve: async (row, _args, ctx) => {
          const project = await loadProject(ctx, row.project_id);
          return project && squashOnMerge(row, project);
        },
      }),
      mergeWhenPipelineSucceeds: t.exposeBoolean('merge_when_pipeline_succeeds'),
      autoMergeEnabled: t.exposeBoolean('merge_when_pipeline_succeeds', { nullable: false }),
      shouldRemoveSourceBranch: t.exposeBoolean('should_remove_source_branch'),
      forceRemoveSourceBranch: t.exposeBoolean('force_remove_source_branch'),
      allowCollaboration: t.exposeBoolean('allow_collaboration'),
      discussionLocked: t.boolean({ nullable: false, resolve: (row) => row.discussion_locked ?? false }),
      imported: t.exposeBoolean('imported', { nullable: false }),
      diffHeadSha: t.exposeString('diff_head_sha'),
      diffRefs: t.field({ type: DiffRefs, resolve: ({ id }, _args, ctx) => loadDiff(ctx, id) }),
      diffStats: t.field({
        ...READS_DIFF,
        type: [DiffStats],
        args: { path: t.arg.string() },
        resolve: async (row, { path }, ctx) => {
          const stats = await diffStatsOf(ctx, row);
          return path == null ? stats : (stats?.filter((each) => each.path === path) ?? null);
        },
      }),
      diffStatsSummary: t.field({
        ...READS_DIFF,
        type: DiffStatsSummary,
        resolve: async (row, _args, ctx) => {
          const stats = await diffStatsOf(ctx, row);
          return (
            stats && {
              files: stats.length,
              additions: stats.reduce((sum, each) => sum + each.additions, 0),
              deletions: stats.reduce((sum, each) => sum + each.deletions, 0),
            }
          );
        },
      }),
      commitCount: t.int({
        resolve: async ({ id }, _args, ctx) => (await loadDiff(ctx, id))?.commits_count ?? null,
      }),
      commits: t.connection(
        {
          type: MergeRequestCommit,
          description: 'Newest first.',
          resolve: (row, args, ctx, info) => commitsBelow(row.id, args, ctx, info),
        },
        MergeRequestCommitConnection,
      ),
      headPipeline: t.field({
        type: PipelineRef,
        resolve: async (row, _args, ctx) => (await withPipelines(ctx, row.project_id)) && loadHeadPipeline(ctx, row.id),
      }),
      pipelines: t.connection(
        {
          type: PipelineRef,
          resolve: async (row, args, ctx, info) =>
            (await withPipelines(ctx, row.project_id)) && pipelinesBelow(row.id, args, ctx, info),
        },
        PipelineConnection,
      ),
      taskCompletionStatus: t.field({
        type: TaskCompletionStatus,
        nullable: false,
        resolve: ({ description }) => taskCompletion(description),
      }),
      timeEstimate: t.exposeInt('time_estimate', { nullable: false }),
      totalTimeSpent: stat((stats) => stats.total_time_spent),
      humanTimeEstimate: t.string({ resolve: ({ time_estimate }) => humanDuration(time_estimate) }),
      humanTotalTimeSpent: t.string({
        resolve: async (row, _args, ctx) => humanDuration((await statsOf(ctx, row)).total_time_spent),
      }),
      upvotes: stat((stats) => stats.upvotes),
      downvotes: stat((stats) => stats.downvotes),
      userNotesCount: stat((stats) => stats.user_notes_count),
      userDiscussionsCount: stat((stats) => stats.user_discussions_count),
      webUrl: t.string({ nullable: false, resolve: (row, _args, ctx) => mergeRequestWebUrl(ctx, row) }),
      webPath: t.string({
        nullable: false,
        resolve: ({ iid, project_path }) => `/${project_path}/-/merge_requests/${iid}`,
      }),
      reference: t.string({
        nullable: false,
        args: { full: t.arg.boolean({ defaultValue: false }) },
        resolve: (row, { full }) => (full ? fullReference(row) : `!${row.iid}`),
      }),
      userPermissions: t.field({
        type: MergeRequestPermissions,
        resolve: async (row, _args, ctx) => {
          const project = await loadProject(ctx, row.project_id);
          return project && { project };
        },
      }),
    };
  },
});
