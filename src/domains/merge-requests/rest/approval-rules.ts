import { mergeRequestRuleRecord, toMergeRequestRule, toMergeRequestRules } from '#domains/approvals/record.ts';
import { newRuleInput, ruleChangeInput, withoutNulls } from '#domains/approvals/rest.ts';
import { readPage } from '#platform/paging.ts';
import { integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import {
  createMergeRequestRule,
  deleteMergeRequestRule,
  getMergeRequestRule,
  listMergeRequestRules,
  updateMergeRequestRule,
} from '../reviewing/approval-rules.ts';
import { findMergeRequest as find, one } from './one.ts';

const tag = 'Approvals';
const ofOne = { ...one, approval_rule_id: integer() };

export const approvalRuleRoutes = [
  listRoute({
    path: '/projects/:id/merge_requests/:merge_request_iid/approval_rules',
    tag,
    summary: 'List the approval rules of a merge request',
    description: 'Its own rules. If it has none, those of its project count.',
    input: one,
    item: mergeRequestRuleRecord,
    paging: 'offset',
    run: async (ctx, { id, merge_request_iid }, wanted) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      const page = await readPage(listMergeRequestRules(ctx, project, row), wanted);
      return { ...page, items: await toMergeRequestRules(ctx, project, page.items) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/merge_requests/:merge_request_iid/approval_rules/:approval_rule_id',
    tag,
    summary: 'Show an approval rule of a merge request',
    input: ofOne,
    response: mergeRequestRuleRecord,
    run: async (ctx, { id, merge_request_iid, approval_rule_id }) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      return toMergeRequestRule(ctx, project, await getMergeRequestRule(ctx, project, row, approval_rule_id));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/merge_requests/:merge_request_iid/approval_rules',
    tag,
    summary: 'Create an approval rule of a merge request',
    description: 'From then on its own rules count instead of those of its project.',
    input: {
      ...one,
      ...newRuleInput,
      approval_project_rule_id: integer()
        .optional()
        .describe('Copies the name of a rule of the project, and its users and groups unless they are given.'),
    },
    response: mergeRequestRuleRecord,
    run: async (ctx, { id, merge_request_iid, ...input }) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      return toMergeRequestRule(ctx, project, await createMergeRequestRule(ctx, project, row, withoutNulls(input)));
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/merge_requests/:merge_request_iid/approval_rules/:approval_rule_id',
    tag,
    summary: 'Change an approval rule of a merge request',
    input: { ...ofOne, ...ruleChangeInput },
    response: mergeRequestRuleRecord,
    run: async (ctx, { id, merge_request_iid, approval_rule_id, ...input }) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      const rule = await updateMergeRequestRule(ctx, project, row, approval_rule_id, withoutNulls(input));
      return toMergeRequestRule(ctx, project, rule);
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/merge_requests/:merge_request_iid/approval_rules/:approval_rule_id',
    tag,
    summary: 'Delete an approval rule of a merge request',
    refusals: MODIFIED,
    input: ofOne,
    response: null,
    run: async (ctx, { id, merge_request_iid, approval_rule_id }, http) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      await deleteMergeRequestRule(ctx, project, row, approval_rule_id, unmodifiedSince(http));
    },
  }),
] satisfies readonly Route[];
