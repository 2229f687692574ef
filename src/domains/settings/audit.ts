import { type Selectable, sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import type { SettingChanges } from '#platform/db/tables.ts';
import { forbidden } from '#platform/errors.ts';

/** One change of settings: who made it, when, and the names of the settings. Values are not recorded. */
export type SettingChangeRow = Selectable<SettingChanges>;

/**
 * Records a change of settings for the audit list. The author is the holder of the credential, even while they act as
 * another user.
 */
export const recordChange = async (tx: Tx, changed: readonly string[]): Promise<void> => {
  const { actor } = tx;
  const author = actor.credential?.holderId ?? actor.userId;
  await tx.db
    .insertInto('setting_changes')
    .values({
      user_id: author,
      username: sql`(select username from users where id = ${author})`,
      changed: [...changed],
    })
    .execute();
};

/** Lists all changes of settings, the latest first. Administrators only. @throws `forbidden` */
export const listSettingChanges = (ctx: Context): List<SettingChangeRow> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  return listOf(
    ctx.db,
    ctx.db.selectFrom('setting_changes').selectAll(),
    [{ by: sql.ref('setting_changes.id'), of: (row) => row.id }],
    'desc',
  );
};
