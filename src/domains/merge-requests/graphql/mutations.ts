import { userIdsByUsernames } from '#domains/planning/readers.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import { builder, type Types } from '#graphql/builder.ts';
import { MutationOperationMode, mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { createMergeRequest, type MergeRequestChanges, updateMergeRequest } from '../commands.ts';
import { MergeRequestRef } from '../graphql.ts';
import { mergeMergeRequest } from '../merging.ts';
import { getMergeRequest, type MergeRequestRow } from '../queries.ts';

const NewState = builder.enumType('MergeRequestNewState', {
  description: 'The state that a merge request changes to.',
  values: { OPEN: { value: 'reopen' }, CLOSED: { value: 'close' } } as const,
});

/** The inputs that name a merge request. */
const named = (t: PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>) => ({
  projectPath: t.id({ required: true }),
  iid: t.string({ required: true }),
});

mutationField('mergeRequestCreate', {
  description: 'Opens a merge request between two branches of a project.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    title: t.string({ required: true }),
    sourceBranch: t.string({ required: true }),
    targetBranch: t.string({ required: true }),
    targetProjectId: t.field({ type: 'ProjectID', description: 'The source project by default.' }),
    description: t.string(),
    labels: t.stringList({ description: 'Titles. Missing labels are created.' }),
    removeSourceBranch: t.boolean(),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, input) => ({
    mergeRequest: await createMergeRequest(ctx, await getProject(ctx, { path: input.projectPath }), {
      title: input.title,
      source_branch: input.sourceBranch,
      target_branch: input.targetBranch,
      target_project_id: input.targetProjectId ?? undefined,
      description: input.description,
      labels: input.labels ?? undefined,
      remove_source_branch: input.removeSourceBranch,
    }),
  }),
});

mutationField('mergeRequestUpdate', {
  description: 'Changes, closes or reopens a merge request.',
  input: (t) => ({
    ...named(t),
    title: t.string(),
    description: t.string(),
    targetBranch: t.string(),
    state: t.field({ type: NewState }),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) =>
    change(ctx, input, async () => ({
      title: input.title ?? undefined,
      description: input.description,
      target_branch: input.targetBranch ?? undefined,
      state_event: input.state ?? undefined,
    })),
});

mutationField('mergeRequestAccept', {
  description: 'Merges a merge request.',
  input: (t) => ({
    ...named(t),
    sha: t.string({ required: true, description: 'The head that the caller has seen.' }),
    commitMessage: t.string(),
    squashCommitMessage: t.string(),
    squash: t.boolean(),
    shouldRemoveSourceBranch: t.boolean(),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    const mergeRequest = await mergeMergeRequest(ctx, project, row, {
      sha: input.sha,
      merge_commit_message: input.commitMessage ?? undefined,
      squash_commit_message: input.squashCommitMessage ?? undefined,
      squash: input.squash ?? undefined,
      should_remove_source_branch: input.shouldRemoveSourceBranch ?? undefined,
    });
    return { mergeRequest };
  },
});

mutationField('mergeRequestSetDraft', {
  description: 'Marks a merge request as a draft, or as ready.',
  input: (t) => ({ ...named(t), draft: t.boolean({ required: true }) }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) => change(ctx, input, async () => ({ draft: input.draft })),
});

mutationField('mergeRequestSetLocked', {
  description: 'Locks or unlocks the discussion. Only members can comment on a locked merge request.',
  input: (t) => ({ ...named(t), locked: t.boolean({ required: true }) }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) => change(ctx, input, async () => ({ discussion_locked: input.locked })),
});

mutationField('mergeRequestSetMilestone', {
  description: 'Sets or removes the milestone of a merge request.',
  input: (t) => ({ ...named(t), milestoneId: t.field({ type: 'MilestoneID', description: 'Null removes it.' }) }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) => change(ctx, input, async () => ({ milestone_id: input.milestoneId ?? null })),
});

mutationField('mergeRequestSetLabels', {
  description: 'Sets the labels of a merge request.',
  input: (t) => ({
    ...named(t),
    labelIds: t.field({ type: ['LabelID'], required: true }),
    operationMode: t.field({ type: MutationOperationMode, defaultValue: 'replace' }),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, { operationMode, labelIds, ...input }) =>
    change(ctx, input, async () => {
      if (operationMode === 'append') return { add_label_ids: labelIds };
      return operationMode === 'remove' ? { remove_label_ids: labelIds } : { label_ids: labelIds };
    }),
});

mutationField('mergeRequestSetAssignees', {
  description: 'Sets the assignees of a merge request.',
  input: (t) => ({
    ...named(t),
    assigneeUsernames: t.stringList({ required: true }),
    operationMode: t.field({ type: MutationOperationMode, defaultValue: 'replace' }),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) =>
    change(ctx, input, async () => ({
      assignee_ids: await userIdsByUsernames(ctx, input.assigneeUsernames, 'assignee_usernames'),
      people_mode: input.operationMode,
    })),
});

mutationField('mergeRequestSetReviewers', {
  description: 'Sets the reviewers of a merge request.',
  input: (t) => ({
    ...named(t),
    reviewerUsernames: t.stringList({ required: true }),
    operationMode: t.field({ type: MutationOperationMode, defaultValue: 'replace' }),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) =>
    change(ctx, input, async () => ({
      reviewer_ids: await userIdsByUsernames(ctx, input.reviewerUsernames, 'reviewer_usernames'),
      people_mode: input.operationMode,
    })),
});

interface Named {
  readonly projectPath: string;
  readonly iid: string;
}

const find = async (
  ctx: Context,
  { projectPath, iid }: Named,
): Promise<{ project: ProjectRow; row: MergeRequestRow }> => {
  const project = await getProject(ctx, { path: projectPath });
  if (!/^\d{1,9}$/.test(iid)) throw notFound('Merge Request');
  return { project, row: await getMergeRequest(ctx, project, Number(iid)) };
};

const change = async (
  ctx: Context,
  input: Named,
  changesOf: () => Promise<MergeRequestChanges>,
): Promise<{ mergeRequest: MergeRequestRow }> => {
  const { project, row } = await find(ctx, input);
  return { mergeRequest: await updateMergeRequest(ctx, project, row, await changesOf()) };
};
