import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

// Accounts are removed one at a time, by administrators: what they wrote is looked for in the tables.
it('are found by an index from whatever else they point at, so that projects and groups go without reading whole tables', async () => {
  const { rows } = await sql<{ column: string }>`
    select c.conrelid::regclass || '.' || a.attname as column
    from pg_constraint c
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
    where c.contype = 'f' and c.confrelid <> 'users'::regclass
      and not exists (select from pg_index i where i.indrelid = c.conrelid and i.indkey[0] = c.conkey[1])
    order by 1`.execute(app().hub.services.db);
  expect(rows).toEqual([]);
});
