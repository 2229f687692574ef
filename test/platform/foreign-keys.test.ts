import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

/** Columns that may do without, each with the reason: a table that stays small whatever the hub grows to. */
const WITHOUT_INDEX: Readonly<Record<string, string>> = {};

// An index of some rows alone helps only where the others point nowhere.
it('are found by an index from whatever they point at, so that accounts, projects and groups go without reading whole tables', async () => {
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
