import { userIdsByUsernames } from '#domains/planning/readers.ts';
import { readEstimate } from '#domains/planning/time-tracking.ts';
import { getProject } from '#domains/projects/queries.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { MutationOperationMode, mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { createMergeRequest, type MergeRequestChanges, updateMergeRequest } from '../commands.ts';
import { deleteMergeRequest } from '../deleting.ts';
import { MergeRequestRef } from '../graphql.ts';
import type { MergeRequestRow } from '../queries.ts';
import { requestReviewAgain } from '../reviewing/reviewers.ts';
import { findNamed as find, type Named, named } from './named.ts';

const NewState = builder.enumType('MergeRequestNewState', {
  description: 'The state that a merge request changes to.',
  values: { OPEN: { value: 'reopen' }, CLOSED: { value: 'close' } } as const,
});

/** The options that the author of the merge request decides, even below Developer. */
const proposed = (t: InputFields) => ({
  removeSourceBranch: t.boolean(),
  squash: t.boolean({ description: 'Ignored if the project decides.' }),
  allowCollaboration: t.boolean({ description: 'For forks: those who can merge may push to the source branch.' }),
});

interface Proposed {
  readonly removeSourceBranch?: boolean | null | undefined;
  readonly squash?: boolean | null | undefined;
  readonly allowCollaboration?: boolean | null | undefined;
}

const proposal = ({ removeSourceBranch, squash, allowCollaboration }: Proposed) => ({
  remove_source_branch: removeSourceBranch,
  squash: squash ?? undefined,
  allow_collaboration: allowCollaboration ?? undefined,
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
    assigneeIds: t.field({ type: ['UserID'], description: 'Users who cannot read it are left out.' }),
    reviewerIds: t.field({ type: ['UserID'], description: 'Users who cannot read it are left out.' }),
    milestoneId: t.field({ type: 'MilestoneID' }),
    mergeAfter: t.field({ type: 'Time', description: 'The earliest time to merge.' }),
    ...proposed(t),
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
      assignee_ids: input.assigneeIds ?? undefined,
      reviewer_ids: input.reviewerIds ?? undefined,
      milestone_id: input.milestoneId,
      merge_after: input.mergeAfter,
      ...proposal(input),
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
    ...proposed(t),
    state: t.field({ type: NewState }),
    mergeAfter: t.field({ type: 'Time', description: 'The earliest time to merge. Null removes it.' }),
    timeEstimate: t.string({ description: 'As `1d 2h`. Zero removes the estimate.' }),
  }),
  payload: { mergeRequest: MergeRequestRef },
  run: (ctx, input) =>
    change(ctx, input, async () => ({
      title: input.title ?? undefined,
      description: input.description,
      target_branch: input.targetBranch ?? undefined,
      ...proposal(input),
      state_event: input.state ?? undefined,
      merge_after: input.mergeAfter,
      time_estimate: input.timeEstimate == null ? undefined : readEstimate(input.timeEstimate, 'timeEstimate'),
    })),
});

mutationField('mergeRequestDelete', {
  description: 'Deletes a merge request with its versions and comments. For owners of the project.',
  input: named,
  payload: {},
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    await deleteMergeRequest(ctx, project, row);
    return {};
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

mutationField('mergeRequestReviewerRereview', {
  description: 'Asks a reviewer to review again.',
  input: (t) => ({ ...named(t), userId: t.field({ type: 'UserID', required: true }) }),
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    return { mergeRequest: await requestReviewAgain(ctx, project, row, input.userId) };
  },
});

const change = async (
  ctx: Context,
  input: Named,
  changesOf: () => Promise<MergeRequestChanges>,
): Promise<{ mergeRequest: MergeRequestRow }> => {
  const { project, row } = await find(ctx, input);
  return { mergeRequest: await updateMergeRequest(ctx, project, row, await changesOf()) };
};
