import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { announceSettings } from './commands.ts';
import { settingsNaming } from './named-records.ts';
import { forgetSettings } from './queries.ts';
import type { NamedKind } from './registry/define.ts';

/** Unsets the settings that name one of these records, which are about to be deleted. */
export const unsetRecords = async (tx: Tx, kind: NamedKind, ids: readonly number[]): Promise<void> => {
  const unset: string[] = [];
  for (const name of settingsNaming(kind)) {
    const { numAffectedRows } = await sql`
      update application_settings
      set attributes = jsonb_set(attributes, array[${name}::text], 'null'), updated_at = now()
      where attributes ->> ${name}::text = any (${ids.map(String)}::text[])`.execute(tx.db);
    if (numAffectedRows) unset.push(name);
  }
  if (unset.length === 0) return;
  await announceSettings(tx, unset);
  tx.afterCommit(() => forgetSettings(tx.services));
};
