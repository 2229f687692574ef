import { z } from 'zod';
import { isoTime } from '#platform/time.ts';
import { mapRecord } from '#platform/values/map-record.ts';
import { FLAGS, MAX_FILE_SIZE, PATTERNS, type PushRule } from './model.ts';

/** A push rule (specification 3 §2.3). */
const groupRule = z.object({
  id: z.int(),
  created_at: z.string(),
  ...mapRecord(FLAGS, (refused) => z.boolean().describe(`Refuses: ${refused}`)),
  ...mapRecord(PATTERNS, (description) => z.string().describe(description)),
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
