import type { Context, Tx } from '#platform/context.ts';
import { type ApprovalSettings, PROJECT_DEFAULTS, SETTING_NAMES, type Setting } from './model.ts';

/** The keys in `tree/project.json` (reference: export-archive §2). Some say the opposite of the setting. */
const KEYS: Readonly<Record<Setting, { readonly key: string; readonly opposite: boolean }>> = {
  allow_author_approval: { key: 'merge_requests_author_approval', opposite: false },
  allow_committer_approval: { key: 'merge_requests_disable_committers_approval', opposite: true },
  allow_overrides_to_approver_list_per_merge_request: {
    key: 'disable_overriding_approvers_per_merge_request',
    opposite: true,
  },
  retain_approvals_on_push: { key: 'reset_approvals_on_push', opposite: true },
  selective_code_owner_removals: { key: 'selective_code_owner_removals', opposite: false },
  require_reauthentication_to_approve: { key: 'require_password_to_approve', opposite: false },
};

/** Returns the project's own settings as keys of an export archive. Leaves out the restrictions of the groups above. */
export const approvalSettingsToArchive = async (
  { db }: Pick<Context, 'db'>,
  projectId: number,
): Promise<Record<string, boolean>> => {
  const stored = await db
    .selectFrom('approval_settings')
    .select(SETTING_NAMES)
    .where('project_id', '=', projectId)
    .executeTakeFirst();
  const settings: ApprovalSettings = stored ?? PROJECT_DEFAULTS;
  return Object.fromEntries(
    SETTING_NAMES.map((name) => [KEYS[name].key, KEYS[name].opposite ? !settings[name] : settings[name]]),
  );
};

/**
 * Stores the settings of an imported project, without an event. Values that are no booleans mean the default. Returns
 * the keys of those that are not null either.
 */
export const importApprovalSettings = async (
  tx: Tx,
  projectId: number,
  line: Readonly<Record<string, unknown>>,
): Promise<readonly string[]> => {
  const invalid = Object.values(KEYS).flatMap(({ key }) => (typeof (line[key] ?? false) === 'boolean' ? [] : [key]));
  const read = (name: Setting): boolean => {
    const value = line[KEYS[name].key];
    return typeof value === 'boolean' ? value !== KEYS[name].opposite : PROJECT_DEFAULTS[name];
  };
  const retain_approvals_on_push = read('retain_approvals_on_push');
  const settings: ApprovalSettings = {
    allow_author_approval: read('allow_author_approval'),
    allow_committer_approval: read('allow_committer_approval'),
    allow_overrides_to_approver_list_per_merge_request: read('allow_overrides_to_approver_list_per_merge_request'),
    retain_approvals_on_push,
    selective_code_owner_removals: retain_approvals_on_push && read('selective_code_owner_removals'),
    require_reauthentication_to_approve: read('require_reauthentication_to_approve'),
  };
  if (SETTING_NAMES.every((name) => settings[name] === PROJECT_DEFAULTS[name])) return invalid;
  await tx.db
    .insertInto('approval_settings')
    .values({ project_id: projectId, ...settings })
    .onConflict((clash) => clash.column('project_id').doUpdateSet(settings))
    .execute();
  return invalid;
};
