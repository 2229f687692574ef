import { z } from 'zod';
import { changesSchema } from '#domains/planning/changes.ts';
import { defineEvent } from '#platform/events.ts';

/** Without the approvers: private groups may be among them. */
const rule = z.object({
  id: z.number(),
  namespace_id: z.number().nullable(),
  project_id: z.number().nullable(),
  merge_request_id: z.number().nullable(),
  name: z.string(),
  rule_type: z.string(),
  report_type: z.string().nullable(),
  approvals_required: z.number(),
});

const part = { ability: 'read_merge_request' } as const;

export const approvalRuleCreated = defineEvent('approval_rule.created', rule, { part });
/** `changed`: names of attributes, also `user_ids`, `group_ids` and `protected_branch_ids`. */
export const approvalRuleUpdated = defineEvent('approval_rule.updated', rule.extend({ changed: z.array(z.string()) }), {
  part,
});
export const approvalRuleDeleted = defineEvent('approval_rule.deleted', rule, { part });

export const approvalSettingsUpdated = defineEvent(
  'approval_settings.updated',
  z.object({ namespace_id: z.number().nullable(), project_id: z.number().nullable(), changes: changesSchema }),
  { part },
);
