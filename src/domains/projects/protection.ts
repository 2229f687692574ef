import { REPORTER } from '#domains/access/model.ts';
import { type ProtectionDefaults, protectionDefaults } from '#domains/settings/protection.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';

/** Returns the default branch protection of the namespace: the group's, or the instance's. */
export const defaultProtection = async (ctx: Context, namespaceId: number): Promise<ProtectionDefaults> => {
  const row = await ctx.db
    .selectFrom('namespaces')
    .select('default_branch_protection_defaults as own')
    .where('id', '=', namespaceId)
    .executeTakeFirst();
  const isSet = typeof row?.own === 'object' && row.own !== null && Object.keys(row.own).length > 0;
  const own = isSet ? protectionDefaults.safeParse(row.own) : null;
  return own?.success ? own.data : (await getSettings(ctx)).default_branch_protection_defaults;
};

/**
 * Protects the default branch of a new project as its group or the instance requires. An existing protection is kept.
 * If Developers may do everything, the branch is not protected.
 */
export const protectDefaultBranch = async (
  tx: Tx,
  project: { readonly id: number; readonly namespace_id: number },
  branch: string,
): Promise<void> => {
  const rules = await defaultProtection(tx, project.namespace_id);
  const everyone = (levels: readonly { readonly access_level: number }[]) =>
    levels.some(({ access_level }) => access_level > REPORTER && access_level <= 30);
  if (everyone(rules.allowed_to_push) && everyone(rules.allowed_to_merge) && rules.allow_force_push) return;
  const created = await tx.db
    .insertInto('protected_branches')
    .values({
      project_id: project.id,
      name: branch,
      allow_force_push: rules.allow_force_push,
      code_owner_approval_required: rules.code_owner_approval_required,
    })
    .onConflict((conflict) => conflict.columns(['project_id', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst();
  const levels = [
    ...rules.allowed_to_push.map(({ access_level }) => ({ action: 'push', access_level })),
    ...rules.allowed_to_merge.map(({ access_level }) => ({ action: 'merge', access_level })),
  ];
  if (!created || levels.length === 0) return;
  await tx.db
    .insertInto('protection_levels')
    .values(levels.map((level) => ({ ...level, protected_branch_id: created.id })))
    .execute();
};
