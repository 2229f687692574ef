import {
  MergeRequestRule,
  MergeRequestRuleConnection,
  newRuleFields,
  peopleOf,
  ruleChangeFields,
  ruleChangesOf,
  rulesLoader,
} from '#domains/approvals/graphql.ts';
import { canReadApprovals } from '#domains/approvals/policy.ts';
import { loadProject } from '#domains/projects/graphql.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { mutationField } from '#graphql/mutation.ts';
import { MergeRequestRef } from '../graphql.ts';
import { createMergeRequestRule, deleteMergeRequestRule, updateMergeRequestRule } from '../reviewing/approval-rules.ts';
import { findNamed as find, named } from './named.ts';

const rulesOf = rulesLoader('merge_request_id');

builder.objectField(MergeRequestRef, 'approvalRules', (t) =>
  t.connection(
    {
      type: MergeRequestRule,
      nullable: true,
      description: 'Its own rules. If it has none, those of its project count. Only for signed-in callers.',
      resolve: async (row, args, ctx, info) => {
        const project = await loadProject(ctx, row.project_id);
        return project && canReadApprovals(ctx, project)
          ? listConnection(args, info, await rulesOf(ctx, row.id))
          : null;
      },
    },
    MergeRequestRuleConnection,
  ),
);

const existing = (t: InputFields) => ({
  ...named(t),
  id: t.field({ type: 'ApprovalMergeRequestRuleID', required: true }),
});

mutationField('approvalMergeRequestRuleCreate', {
  description: 'Creates an approval rule of a merge request. From then on its own rules count.',
  input: (t) => ({
    ...named(t),
    ...newRuleFields(t),
    approvalProjectRuleId: t.field({
      type: 'ApprovalProjectRuleID',
      description: 'Copies the name of a rule of the project, and its users and groups unless they are given.',
    }),
  }),
  payload: { approvalRule: MergeRequestRule },
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    const approvalRule = await createMergeRequestRule(ctx, project, row, {
      ...peopleOf(input),
      name: input.name,
      approvals_required: input.approvalsRequired,
      approval_project_rule_id: input.approvalProjectRuleId ?? undefined,
    });
    return { approvalRule };
  },
});

mutationField('approvalMergeRequestRuleUpdate', {
  description: 'Changes an approval rule of a merge request.',
  input: (t) => ({ ...existing(t), ...ruleChangeFields(t) }),
  payload: { approvalRule: MergeRequestRule },
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    return { approvalRule: await updateMergeRequestRule(ctx, project, row, input.id, ruleChangesOf(input)) };
  },
});

mutationField('approvalMergeRequestRuleDelete', {
  description: 'Deletes an approval rule of a merge request.',
  input: existing,
  payload: {},
  run: async (ctx, input) => {
    const { project, row } = await find(ctx, input);
    await deleteMergeRequestRule(ctx, project, row, input.id);
    return {};
  },
});
