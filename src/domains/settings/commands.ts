import { isDeepStrictEqual } from 'node:util';
import { sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, forbidden, requireValid } from '#platform/errors.ts';
import { recordChange } from './audit.ts';
import { checkedChanges } from './changes.ts';
import { settingsUpdated } from './events.ts';
import { lockNamedRecords } from './named-records.ts';
import { attributesOf, forgetSettings, getSettings, type StoredSettings, settingsOf } from './queries.ts';
import { secretNames, settingNames } from './registry.ts';
import { sealSetting } from './secrets.ts';

/** Postgres channel that notifies processes when settings change. */
export const SETTINGS_CHANNEL = 'settings';

/**
 * Changes settings (specification 3 §4.7), given by any of their names. Ignores unknown names. Administrators only.
 *
 * @throws `forbidden`, `bad_request` when no known setting is given, `invalid` by setting
 */
export const updateSettings = async (
  ctx: Context,
  given: Readonly<Record<string, unknown>>,
): Promise<StoredSettings> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  await ctx.transaction(async (tx) => {
    const unknown = await lockNamedRecords(tx, checkedChanges(given, await getSettings(tx)).changes);
    const row = await tx.db
      .selectFrom('application_settings')
      .select('attributes')
      .forUpdate()
      .executeTakeFirstOrThrow();
    const present = settingsOf(attributesOf(row));
    const { known, changes, problems } = checkedChanges(given, present);
    if (!known) throw badRequest('at least one known setting must be provided');
    requireValid({ ...unknown, ...problems });
    const values: Record<string, unknown> = { ...changes };
    for (const name of secretNames) {
      const secret = changes[name];
      if (typeof secret === 'string') values[name] = sealSetting(tx, name, secret);
    }
    await tx.db
      .updateTable('application_settings')
      .set({ attributes: sql`attributes || ${JSON.stringify(values)}::jsonb`, updated_at: sql`now()` })
      .execute();
    // A value that is the default until now is stored too: it must outlive a new default.
    const changed = settingNames.filter((name) => name in changes && !isDeepStrictEqual(changes[name], present[name]));
    if (changed.length > 0) await announceSettings(tx, changed);
  });
  forgetSettings(ctx.services);
  return getSettings(ctx);
};

/** Lets all processes, subscribers and the audit list know of changed settings. */
export const announceSettings = async (tx: Tx, changed: readonly string[]): Promise<void> => {
  await sql`select pg_notify(${SETTINGS_CHANNEL}, '')`.execute(tx.db);
  tx.emit(settingsUpdated, { subject: { type: 'ApplicationSetting', id: 1 }, payload: { changed: [...changed] } });
  await recordChange(tx, changed);
};
