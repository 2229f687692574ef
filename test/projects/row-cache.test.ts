import { expect, it } from 'vitest';
import { findProject, getProject, listProjectDetails } from '#domains/projects/queries.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

const setDescription = (db: ReturnType<typeof app>['hub']['services']['db'], id: number, description: string) =>
  db.updateTable('projects').set({ description }).where('id', '=', id).execute();

it('never tells of a row as it was', async () => {
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

it('keeps what a transaction wrote to that transaction', async () => {
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

it('leaves a project out that has just gone', async () => {
  const owner = await app().make.user();
  const { id } = await app().make.project({}, owner);
  const ctx = app().context(owner);
  await getProject(ctx, { id });
  await ctx.db.deleteFrom('projects').where('id', '=', id).execute();
  expect(await findProject(ctx, { id })).toBeNull();
});
