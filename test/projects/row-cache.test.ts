import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { findProject, getProject, listProjectDetails } from '#domains/projects/queries.ts';
import { createRowCache, type RowVersion, versionOf } from '#platform/db/row-cache.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

const setDescription = (db: ReturnType<typeof app>['hub']['services']['db'], id: number, description: string) =>
  db.updateTable('projects').set({ description }).where('id', '=', id).execute();

it('never returns a stale row', async () => {
  const owner = await app().make.user();
  const { id } = await app().make.project({ description: 'first' }, owner);
  const ctx = app().context(owner);
  const read = async () => (await getProject(ctx, { id })).description;
  expect(await read()).toBe('first');
  for (const text of ['second', 'third']) {
    await setDescription(ctx.db, id, text);
    expect(await read()).toBe(text);
    expect((await listProjectDetails(ctx, { ids: [id] }).rows({ limit: 1 }))[0]?.description).toBe(text);
  }
});

it('keeps uncommitted changes within their transaction', async () => {
  const owner = await app().make.user();
  const { id } = await app().make.project({ description: 'committed' }, owner);
  const ctx = app().context(owner);
  const given = new Error('given up');
  await expect(
    ctx.transaction(async (tx) => {
      for (const text of ['inside', 'inside again']) {
        await setDescription(tx.db, id, text);
        expect((await getProject(tx, { id })).description).toBe(text);
        expect((await getProject(ctx, { id })).description).toBe('committed');
      }
      throw given;
    }),
  ).rejects.toBe(given);
  expect((await getProject(ctx, { id })).description).toBe('committed');
});

it('omits a project that was just deleted', async () => {
  const owner = await app().make.user();
  const { id } = await app().make.project({}, owner);
  const ctx = app().context(owner);
  await getProject(ctx, { id });
  await ctx.db.deleteFrom('projects').where('id', '=', id).execute();
  expect(await findProject(ctx, { id })).toBeNull();
});

it('lists every row, even more rows than fit into the cache', async () => {
  const owner = await app().make.user();
  const ctx = app().context(owner);
  const ids: number[] = [];
  for (let i = 0; i < 4; i++) ids.push((await app().make.project({}, owner)).id);
  const withColumns = createRowCache<{ readonly id: number }>('projects', sql`projects.id`, 2);
  const read = async (wanted: readonly number[]) => {
    const { rows } = await sql<RowVersion & { readonly id: number }>`select id, ${versionOf('projects')} from projects
      where id = any (${wanted}::bigint[]) order by id`.execute(ctx.db);
    return (await withColumns(ctx, rows)).map(({ id }) => id);
  };
  expect(await read(ids.slice(0, 2))).toEqual(ids.slice(0, 2));
  expect(await read(ids)).toEqual(ids);
  expect(await Promise.all([read(ids.slice(1)), read(ids), read(ids.slice(0, 3))])).toEqual([
    ids.slice(1),
    ids,
    ids.slice(0, 3),
  ]);
});
