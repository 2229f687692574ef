import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

/** Columns without an index, each with the reason: its table stays small at any size of the hub. */
const WITHOUT_INDEX: Readonly<Record<string, string>> = {};

// A partial index counts only if it covers every row whose key is not null.
it('every foreign key has an index, so that deleting an account, a project or a group never scans a whole table', async () => {
  const { rows } = await sql<{ column: string }>`
    select c.conrelid::regclass || '.' || a.attname as column
    from pg_constraint c
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]
    where c.contype = 'f' and c.connamespace = 'public'::regnamespace
      and not exists (select from pg_index i where i.indrelid = c.conrelid and i.indkey[0] = c.conkey[1]
        and (i.indpred is null or pg_get_expr(i.indpred, i.indrelid) = format('(%I IS NOT NULL)', a.attname)))
    order by 1`.execute(app().hub.services.db);
  expect(rows.map(({ column }) => column)).toEqual(Object.keys(WITHOUT_INDEX).toSorted());
});
