import { z } from 'zod';
import { isoTime } from '#platform/time.ts';
import { FLAGS, MAX_FILE_SIZE, PATTERNS, type PushRule } from './model.ts';

const flag = (name: keyof typeof FLAGS) => z.boolean().describe(`Refuses: ${FLAGS[name]}`);
const pattern = (name: keyof typeof PATTERNS) => z.string().describe(PATTERNS[name]);

/** A push rule (specification 3 §2.3). */
const groupRule = z.object({
  id: z.int(),
  created_at: z.string(),
  commit_committer_check: flag('commit_committer_check'),
  commit_committer_name_check: flag('commit_committer_name_check'),
  reject_unsigned_commits: flag('reject_unsigned_commits'),
  reject_non_dco_commits: flag('reject_non_dco_commits'),
  commit_message_regex: pattern('commit_message_regex'),
  commit_message_negative_regex: pattern('commit_message_negative_regex'),
  branch_name_regex: pattern('branch_name_regex'),
  author_email_regex: pattern('author_email_regex'),
  file_name_regex: pattern('file_name_regex'),
  deny_delete_tag: flag('deny_delete_tag'),
  member_check: flag('member_check'),
  prevent_secrets: flag('prevent_secrets'),
  max_file_size: z.int().describe(MAX_FILE_SIZE),
});
const projectRule = groupRule.extend({ project_id: z.int() });

const toGroupRule = (rule: PushRule): z.output<typeof groupRule> => {
  const { id, created_at, namespace_id: _namespace, project_id: _project, updated_at: _updated, ...shown } = rule;
  return { id, created_at: isoTime(created_at), ...shown };
};

export const pushRuleRecords = {
  group: { record: groupRule.meta({ id: 'GroupPushRule' }), of: toGroupRule },
  project: {
    record: projectRule.meta({ id: 'ProjectPushRule' }),
    of: (rule: PushRule): z.output<typeof projectRule> => ({
      ...toGroupRule(rule),
      project_id: rule.project_id ?? 0,
    }),
  },
} as const;
