import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { foundBySearch, searchCondition } from '#domains/projects/search.ts';
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

  const planOf = (term: Parameters<typeof searchCondition>[0]) =>
    app()
      .hub.services.db.transaction()
      .execute(async (db) => {
        await sql`set local enable_seqscan = off`.execute(db);
        const { sql: text } =
          sql`select id from projects where ${searchCondition(term)} and ${sql.join(foundBySearch(term))}`.compile(db);
        const plan = await sql.raw<{ 'QUERY PLAN': string }>(`explain (generic_plan, costs off) ${text}`).execute(db);
        return plan.rows.map((row) => row['QUERY PLAN']).join('\n');
      });
  const indexesOf = (plan: string) =>
    [...plan.matchAll(/Index (?:Only )?Scan (?:on|using) (\w+)/g)].map(([, name]) => name);

  it('uses only the index of pairs', async () => {
    expect(indexesOf(await planOf({ search: 'go' }))).toEqual(['projects_search_pairs']);
  });

  it('finds namespaces by their index, and looks each project up in a hash of them instead of a list', async () => {
    const plan = await planOf({ search: 'makers', search_namespaces: true });
    expect(indexesOf(plan)).toEqual(
      expect.arrayContaining(['projects_search', 'namespaces_search_full_name', 'projects_namespace']),
    );
    expect(plan).toContain('hashed SubPlan');
    expect(plan).not.toContain('= ANY');
  });
});
