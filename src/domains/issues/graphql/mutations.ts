import { userIdsByUsernames } from '#domains/planning/readers.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import { builder } from '#graphql/builder.ts';
import { upperCase } from '#graphql/enums.ts';
import { MutationOperationMode, mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import { createIssue, deleteIssue, type IssueChanges, updateIssue } from '../commands.ts';
import { IssueRef, IssueTypeEnum } from '../graphql.ts';
import { ISSUE_STATE_EVENTS, type IssueRow } from '../model.ts';
import { getIssue } from '../queries.ts';

const IssueStateEvent = builder.enumType('IssueStateEvent', { values: upperCase(ISSUE_STATE_EVENTS) });

mutationField('createIssue', {
  description: 'Opens an issue.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    title: t.string({ required: true }),
    description: t.string(),
    confidential: t.boolean(),
    type: t.field({ type: IssueTypeEnum }),
    assigneeIds: t.field({ type: ['UserID'] }),
    milestoneId: t.field({ type: 'MilestoneID' }),
    labels: t.stringList({ description: 'Titles. Missing labels are created.' }),
    labelIds: t.field({ type: ['LabelID'] }),
    dueDate: t.field({ type: 'Date' }),
    weight: t.int(),
    iid: t.int({ description: 'For owners only.' }),
    createdAt: t.field({ type: 'Time', description: 'For owners only.' }),
  }),
  payload: { issue: IssueRef },
  run: async (ctx, input) => ({
    issue: await createIssue(ctx, await getProject(ctx, { path: input.projectPath }), {
      title: input.title,
      description: input.description,
      confidential: input.confidential ?? undefined,
      issue_type: input.type ?? undefined,
      assignee_ids: input.assigneeIds ?? undefined,
      milestone_id: input.milestoneId,
      labels: input.labels ?? undefined,
      label_ids: input.labelIds ?? undefined,
      due_date: input.dueDate,
      weight: input.weight,
      iid: positive(input.iid),
      created_at: input.createdAt ?? undefined,
    }),
  }),
});

mutationField('updateIssue', {
  description: 'Changes, closes or reopens an issue.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    iid: t.string({ required: true }),
    title: t.string(),
    description: t.string(),
    confidential: t.boolean(),
    locked: t.boolean({ description: 'Whether only members may comment.' }),
    type: t.field({ type: IssueTypeEnum }),
    stateEvent: t.field({ type: IssueStateEvent }),
    assigneeIds: t.field({ type: ['UserID'] }),
    milestoneId: t.field({ type: 'MilestoneID', description: 'Null removes it.' }),
    labels: t.stringList({ description: 'Titles that replace all labels.' }),
    labelIds: t.field({ type: ['LabelID'], description: 'Replaces all labels.' }),
    addLabelIds: t.field({ type: ['LabelID'] }),
    removeLabelIds: t.field({ type: ['LabelID'] }),
    dueDate: t.field({ type: 'Date' }),
    weight: t.int(),
  }),
  payload: { issue: IssueRef },
  run: (ctx, input) =>
    change(ctx, input, async () => ({
      title: input.title ?? undefined,
      description: input.description,
      confidential: input.confidential ?? undefined,
      discussion_locked: input.locked,
      issue_type: input.type ?? undefined,
      state_event: input.stateEvent ?? undefined,
      assignee_ids: input.assigneeIds ?? undefined,
      milestone_id: input.milestoneId,
      labels: input.labels ?? undefined,
      label_ids: input.labelIds ?? undefined,
      add_label_ids: input.addLabelIds ?? undefined,
      remove_label_ids: input.removeLabelIds ?? undefined,
      due_date: input.dueDate,
      weight: input.weight,
    })),
});

mutationField('issueSetAssignees', {
  description: 'Sets the assignees of an issue.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    iid: t.string({ required: true }),
    assigneeUsernames: t.stringList({ required: true }),
    operationMode: t.field({ type: MutationOperationMode, defaultValue: 'replace' }),
  }),
  payload: { issue: IssueRef },
  run: (ctx, input) =>
    change(ctx, input, async () => ({
      assignee_ids: await userIdsByUsernames(ctx, input.assigneeUsernames, 'assignee_usernames'),
      people_mode: input.operationMode,
    })),
});

mutationField('issueSetConfidential', {
  description: 'Makes an issue confidential, or visible again.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    iid: t.string({ required: true }),
    confidential: t.boolean({ required: true }),
  }),
  payload: { issue: IssueRef },
  run: (ctx, input) => change(ctx, input, async () => ({ confidential: input.confidential })),
});

mutationField('issueSetDueDate', {
  description: 'Sets or removes the due date of an issue.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    iid: t.string({ required: true }),
    dueDate: t.field({ type: 'Date' }),
  }),
  payload: { issue: IssueRef },
  run: (ctx, input) => change(ctx, input, async () => ({ due_date: input.dueDate ?? null })),
});

mutationField('issueSetLocked', {
  description: 'Locks or unlocks the discussion of an issue. Only members can comment on a locked issue.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    iid: t.string({ required: true }),
    locked: t.boolean({ required: true }),
  }),
  payload: { issue: IssueRef },
  run: (ctx, input) => change(ctx, input, async () => ({ discussion_locked: input.locked })),
});

mutationField('issueDelete', {
  description: 'Deletes an issue with all its comments.',
  input: (t) => ({ projectPath: t.id({ required: true }), iid: t.string({ required: true }) }),
  payload: {},
  run: async (ctx, input) => {
    const { project, issue } = await find(ctx, input);
    await deleteIssue(ctx, project, issue);
    return {};
  },
});

interface Named {
  readonly projectPath: string;
  readonly iid: string;
}

const find = async (ctx: Context, { projectPath, iid }: Named): Promise<{ project: ProjectRow; issue: IssueRow }> => {
  const project = await getProject(ctx, { path: projectPath });
  if (!/^\d{1,9}$/.test(iid)) throw notFound('Issue');
  return { project, issue: await getIssue(ctx, project, Number(iid)) };
};

const change = async (ctx: Context, input: Named, changesOf: () => Promise<IssueChanges>) => {
  const { project, issue } = await find(ctx, input);
  return { issue: await updateIssue(ctx, project, issue, await changesOf()) };
};

const positive = (iid: number | null | undefined): number | undefined => {
  if (iid != null && iid < 1) throw badRequest('iid is invalid');
  return iid ?? undefined;
};
