import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { foundByPairs, searchCondition } from '#domains/projects/search.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

/** Characters that Postgres accepts, few enough that terms overlap. */
const characters = fc.string({ unit: fc.constantFrom(..."aAbß'\\: \n%_1é水磨ЖжİÉ🦫"), maxLength: 24 });

describe('search by pairs of characters', () => {
  it('finds every text that contains the term, with any text around it', async () => {
    await fc.assert(
      fc.asyncProperty(characters, characters.filter(Boolean), characters, async (before, term, after) => {
        const { rows } = await sql<{ found: boolean; like: boolean }>`
          select search_pairs(${before + term + after}) @@ search_pairs_of(${term}) as found,
            ${before + term + after} ilike ${`%${term.replace(/[\\%_]/g, '\\$&')}%`} as "like"`.execute(
          app().hub.services.db,
        );
        expect(rows).toEqual([{ found: true, like: true }]);
      }),
      { numRuns: 100 },
    );
  });

  it('uses only the index of pairs', async () => {
    const plan = await app()
      .hub.services.db.transaction()
      .execute(async (db) => {
        await sql`set local enable_seqscan = off`.execute(db);
        const term = { search: 'go' };
        const { sql: text } =
          sql`select id from projects where ${searchCondition(term)} and ${sql.join(foundByPairs(term))}`.compile(db);
        return sql.raw<{ 'QUERY PLAN': string }>(`explain (generic_plan, costs off) ${text}`).execute(db);
      });
    const indexes = plan.rows.flatMap((row) => /Index Scan on (\w+)/.exec(row['QUERY PLAN'])?.[1] ?? []);
    expect(indexes).toEqual(['projects_search_pairs']);
  });
});
