import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { FieldErrors } from '#platform/errors.ts';
import type { Changes } from './changes.ts';
import { factsOf, type NamedKind } from './registry/define.ts';
import { type SettingName, settingNames, settingsSchema } from './registry.ts';

/** The settings that hold the id of such a record. */
export const settingsNaming = (kind: NamedKind): readonly SettingName[] =>
  settingNames.filter((name) => factsOf(settingsSchema.shape[name]).names === kind);

/**
 * Locks the records that the changes name until the transaction ends, so that a deletion either comes first or finds the
 * new setting. Returns the problems of settings that name a record that does not exist. Call it before the settings are
 * locked: a deletion locks them last.
 */
export const lockNamedRecords = async (tx: Tx, changes: Changes): Promise<FieldErrors> => {
  const problems: Record<string, string[]> = {};
  for (const kind of ['group', 'project'] as const) {
    for (const name of settingsNaming(kind)) {
      const id = changes[name];
      if (typeof id === 'number' && !(await lockRecord[kind](tx, id))) problems[name] = [`must be an existing ${kind}`];
    }
  }
  return problems;
};

const lockRecord: Readonly<Record<NamedKind, (tx: Tx, id: number) => Promise<boolean>>> = {
  group: async (tx, id) => {
    const { rows } = await sql`select from namespaces where id = ${id} and kind = 'group' for key share`.execute(tx.db);
    return rows.length > 0;
  },
  project: async (tx, id) => {
    // A group is deleted under a lock of its namespaces, which comes before those of projects.
    await sql`
      select from namespaces where id = (select namespace_id from projects where id = ${id}) for key share`.execute(
      tx.db,
    );
    const { rows } = await sql`select from projects where id = ${id} for key share`.execute(tx.db);
    return rows.length > 0;
  },
};
