import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { announceSettings } from './commands.ts';
import { forgetSettings } from './queries.ts';
import type { SettingName } from './registry.ts';

const NAME = 'file_template_project_id' satisfies SettingName;

/** Unsets the setting that names one of these projects, which are about to be deleted. */
export const unsetProjects = async (tx: Tx, projectIds: readonly number[]): Promise<void> => {
  const { numAffectedRows } = await sql`
    update application_settings
    set attributes = jsonb_set(attributes, ${[NAME]}::text[], 'null'), updated_at = now()
    where attributes ->> ${NAME} = any (${projectIds.map(String)}::text[])`.execute(tx.db);
  if (!numAffectedRows) return;
  await announceSettings(tx, [NAME]);
  tx.afterCommit(() => forgetSettings(tx.services));
};
