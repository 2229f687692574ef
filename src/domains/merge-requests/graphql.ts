import { PipelineConnection, PipelineRef } from '#domains/ci/graphql.ts';
import { taskCompletion } from '#domains/planning/tasks.ts';
import { humanDuration } from '#domains/planning/time-tracking.ts';
import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { can, type ProjectAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import type { Context } from '#platform/context.ts';
import { collaborativeByIds } from './collaboration.ts';
import { canUpdateMergeRequest } from './commands.ts';
import { DETAILED_MERGE_STATUSES, mergeabilityByIds } from './mergeability.ts';
import { AUTO_MERGE_STRATEGY } from './merging/auto-merge.ts';
import { MERGE_REQUEST_STATES, shownMergeStatus, squashOnMerge } from './model.ts';
import {
  discussionCountsByMergeRequestIds,
  headPipelinesByIds,
  listPipelinesBelowMergeRequests,
  type MergeRequestRow,
  type MergeRequestStats,
  mergeRequestStatsByIds,
} from './queries.ts';
import { diffsByMergeRequestIds, type MergeRequestDiffRow } from './versions/queries.ts';

/**
 * A merge request. Downstream domains add fields with `builder.objectField(MergeRequestRef, ...)`. These read the whole
 * row; `mergeRequestField` (graphql/columns.ts) declares what a field reads.
 */
export const MergeRequestRef = builder.objectRef<MergeRequestRow>('MergeRequest');
export const MergeRequestConnection = builder.connectionObject(
  { type: MergeRequestRef, name: 'MergeRequestConnection' },
  { name: 'MergeRequestEdge' },
);

export const MergeRequestStateEnum = builder.enumType('MergeRequestState', {
  values: [...MERGE_REQUEST_STATES, 'all'] as const,
});

const upperCase = <const T extends string>(words: readonly T[], names: { readonly [K in T]?: string } = {}) => {
  const values: Record<string, { readonly value: T }> = {};
  for (const word of words) values[names[word] ?? word.toUpperCase()] = { value: word };
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
const DetailedMergeStatusEnum = builder.enumType('DetailedMergeStatus', {
  // Frontends know some by other names.
  values: upperCase(DETAILED_MERGE_STATUSES, {
    merge_request_blocked: 'BLOCKED_STATUS',
    title_regex: 'TITLE_NOT_MATCHING',
  }),
});

const loadDiscussionCount = loader(discussionCountsByMergeRequestIds);
export const loadStats: (ctx: Context, id: number) => Promise<MergeRequestStats | null> =
  loader(mergeRequestStatsByIds);
export const loadDiff: (ctx: Context, id: number) => Promise<MergeRequestDiffRow | null> =
  loader(diffsByMergeRequestIds);
export const loadHeadPipeline = loader(headPipelinesByIds);
export const loadMergeability = loader(mergeabilityByIds);
const loadCollaborative = loader(collaborativeByIds);

/** The commits between which a diff is. */
export const DiffRefs = builder
  .objectRef<Pick<MergeRequestDiffRow, 'base_commit_sha' | 'head_commit_sha' | 'start_commit_sha'>>('DiffRefs')
  .implement({
    fields: (t) => ({
      baseSha: t.exposeString('base_commit_sha'),
      headSha: t.exposeString('head_commit_sha'),
      startSha: t.exposeString('start_commit_sha'),
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

interface Permitted {
  readonly project: ProjectRow;
  readonly row: MergeRequestRow;
}
export const MergeRequestPermissions = builder.objectRef<Permitted>('MergeRequestPermissions').implement({
  description: 'What the caller may do with the merge request.',
  fields: (t) => {
    const may = (ability: ProjectAbility) =>
      t.boolean({ nullable: false, resolve: ({ project }, _args, ctx) => can(ctx, project, ability) });
    return {
      readMergeRequest: may('read_merge_request'),
      adminMergeRequest: may('admin_merge_request'),
      updateMergeRequest: t.boolean({
        nullable: false,
        resolve: ({ project, row }, _args, ctx) => canUpdateMergeRequest(ctx, project, row),
      }),
      createNote: may('create_note'),
      removeMergeRequest: may('remove_merge_request'),
    };
  },
});

const pipelinesBelow = batchedConnection((ctx, _args: ConnectionArguments) => listPipelinesBelowMergeRequests(ctx));

/** Returns the project if the caller can see its pipelines. */
const withPipelines = async (ctx: Context, projectId: number): Promise<ProjectRow | null> => {
  const project = await loadProject(ctx, projectId);
  return project && can(ctx, project, 'read_pipeline') ? project : null;
};

MergeRequestRef.implement({
  description: 'A merge request: commits of one branch to be merged into another.',
  fields: (t) => {
    const person = (column: 'merge_user_id' | 'closed_by_id') =>
      t.field({
        type: UserRef,
        nullable: true,
        resolve: (row, _args, ctx) => (row[column] === null ? null : loadUser.find(ctx, row[column])),
      });
    return {
      sourceProject: t.field({
        type: ProjectRef,
        resolve: ({ source_project_id: id }, _args, ctx) => (id === null ? null : loadProject(ctx, id)),
      }),
      sourceProjectId: t.exposeInt('source_project_id'),
      mergeUser: person('merge_user_id'),
      closedBy: person('closed_by_id'),
      preparedAt: t.expose('prepared_at', { type: 'Time' }),
      mergeStatusEnum: t.field({
        type: MergeStatusEnum,
        resolve: shownMergeStatus,
      }),
      mergeStatus: t.string({
        deprecationReason: 'Use `detailedMergeStatus`.',
        resolve: shownMergeStatus,
      }),
      detailedMergeStatus: t.field({
        type: DetailedMergeStatusEnum,
        resolve: async ({ id }, _args, ctx) => (await loadMergeability(ctx, id))?.detailed_merge_status ?? null,
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
      autoMergeStrategy: t.string({
        resolve: (row) => (row.merge_when_pipeline_succeeds ? AUTO_MERGE_STRATEGY : null),
      }),
      mergeAfter: t.expose('merge_after', { type: 'Time' }),
      shouldBeRebased: t.boolean({
        nullable: false,
        description: 'The project merges only branches that contain the target, and this one does not.',
        resolve: async ({ id }, _args, ctx) => (await loadMergeability(ctx, id))?.needs_rebase ?? false,
      }),
      rebaseInProgress: t.boolean({ nullable: false, resolve: ({ rebasing }) => rebasing !== null }),
      shouldRemoveSourceBranch: t.exposeBoolean('should_remove_source_branch'),
      forceRemoveSourceBranch: t.exposeBoolean('force_remove_source_branch'),
      allowCollaboration: t.boolean({
        resolve: async ({ id, allow_collaboration }, _args, ctx) =>
          allow_collaboration && (await loadCollaborative(ctx, id)) !== null,
      }),
      discussionLocked: t.boolean({ nullable: false, resolve: (row) => row.discussion_locked ?? false }),
      imported: t.exposeBoolean('imported', { nullable: false }),
      diffHeadSha: t.exposeString('diff_head_sha'),
      diffRefs: t.field({ type: DiffRefs, resolve: ({ id }, _args, ctx) => loadDiff(ctx, id) }),
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
      humanTimeEstimate: t.string({ resolve: ({ time_estimate }) => humanDuration(time_estimate) }),
      userDiscussionsCount: t.int({
        nullable: false,
        resolve: async ({ id }, _args, ctx) => (await loadDiscussionCount(ctx, id)) ?? 0,
      }),
      userPermissions: t.field({
        type: MergeRequestPermissions,
        resolve: async (row, _args, ctx) => {
          const project = await loadProject(ctx, row.project_id);
          return project && { project, row };
        },
      }),
    };
  },
});
