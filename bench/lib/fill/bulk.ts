import type { PoolClient } from 'pg';

interface Definition {
  readonly name: string;
  readonly owner: string;
  readonly definition: string;
}

/**
 * Drops the indexes and foreign keys of large tables and disables their triggers. Keeps primary keys and the unique
 * indexes of constraints. Returns a function that restores a table. Use both in one transaction, so that nothing is
 * lost on failure.
 */
export const withoutIndexes = async <T extends string>(
  client: PoolClient,
  tables: readonly T[],
): Promise<(table: T) => Promise<void>> => {
  const { rows: keys } = await client.query<Definition>(
    `select conname as name, conrelid::regclass::text as owner, pg_get_constraintdef(oid) as definition
      from pg_constraint where contype = 'f' and conrelid::regclass::text = any ($1)`,
    [tables],
  );
  const { rows: indexes } = await client.query<Definition>(
    `select i.indexrelid::regclass::text as name, i.indrelid::regclass::text as owner, pg_get_indexdef(i.indexrelid) as definition
      from pg_index i
      where i.indrelid::regclass::text = any ($1) and not exists (select 1 from pg_constraint c where c.conindid = i.indexrelid)
      order by i.indexrelid`,
    [tables],
  );
  for (const { name, owner } of keys) await client.query(`alter table ${owner} drop constraint ${name}`);
  for (const { name } of indexes) await client.query(`drop index ${name}`);
  // The data that triggers maintain is computed at the end: row by row, it would take longer than everything else.
  for (const table of tables) await client.query(`alter table ${table} disable trigger user`);
  return async (table) => {
    await client.query(`alter table ${table} enable trigger user`);
    for (const { owner, definition } of indexes) if (owner === table) await client.query(definition);
    for (const { name, owner, definition } of keys)
      if (owner === table) await client.query(`alter table ${owner} add constraint ${name} ${definition}`);
  };
};
