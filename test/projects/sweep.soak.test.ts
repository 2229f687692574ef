import { createHash } from 'node:crypto';
import { mkdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { withNewRepository } from '#domains/projects/new-repository.ts';
import { sweepRepositories } from '#domains/projects/sweep.ts';
import type { Context } from '#platform/context.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

const place = (path: string) => join(app().hub.services.config.dataDir, 'repositories', path);
const isThere = (path: string) =>
  stat(place(path)).then(
    () => true,
    () => false,
  );
const plant = async (path: string, { days }: { days: number }): Promise<string> => {
  await mkdir(place(`${path}/objects`), { recursive: true });
  await writeFile(place(`${path}/HEAD`), 'ref: refs/heads/main\n');
  const at = new Date(Date.now() - days * 86_400_000);
  await utimes(place(path), at, at);
  return path;
};
const hashed = (text: string, folder = '') => {
  const digest = folder + createHash('sha256').update(text).digest('hex').slice(folder.length);
  return `@hashed/${digest.slice(0, 2)}/${digest.slice(2, 4)}/${digest}.git`;
};
const sweepAll = async () => {
  for (let hour = 0; hour < 24; hour++) await sweepRepositories(app().context(), hour);
};

it('removes repositories that belong to no project, a day after their last change', async () => {
  const project = await app().make.project({ initialize_with_readme: true });
  const { disk_path } = await app()
    .hub.services.db.selectFrom('projects')
    .select('disk_path')
    .where('id', '=', project.id)
    .executeTakeFirstOrThrow();
  const longAgo = new Date(Date.now() - 30 * 86_400_000);
  await utimes(place(disk_path), longAgo, longAgo);
  const beside = `${disk_path.slice(0, -'.git'.length)}.incoming-00000000-0000-4000-8000-000000000000.git`;
  const old = [await plant(hashed('left by a process that died'), { days: 2 }), await plant(beside, { days: 2 })];
  const young = await plant(hashed('in the making'), { days: 0.5 });
  await sweepAll();
  expect(await Promise.all([disk_path, young, ...old].map(isThere))).toEqual([true, true, false, false]);
  expect((await app().as(app().root).get(`/projects/${project.id}/repository/tree`)).body).toHaveLength(1);
  // Sweep again, as another process may.
  await sweepAll();
});

it('removes nothing if the storage belongs to another database', async () => {
  await sweepAll();
  const mine = await readFile(place('.owner'));
  const old = await plant(hashed('known to another database'), { days: 9 });
  try {
    await writeFile(place('.owner'), '2020-01-01 00:00:00+00');
    await sweepAll();
    expect(await isThere(old)).toBe(true);
  } finally {
    await writeFile(place('.owner'), mine);
  }
  await sweepAll();
  expect(await isThere(old)).toBe(false);
});

it('removes nothing if most repositories belong to no project, because the database may have lost rows', async () => {
  const all = await Promise.all(Array.from({ length: 11 }, (_, index) => plant(hashed(`${index}`, 'fe'), { days: 9 })));
  await sweepAll();
  expect(await Promise.all(all.map(isThere))).toEqual(all.map(() => true));
});

it('keeps the repository if the transaction committed before the connection was lost', async () => {
  const { hub, context } = app();
  const attempt = async (lose: () => Error, diskPath: string) => {
    const ctx = context();
    const losing: Context = {
      ...ctx,
      transaction: async (run) => {
        await ctx.transaction(run);
        throw lose();
      },
    };
    await withNewRepository(losing, async (_tx, init) => {
      await init(diskPath, 'main');
      return { disk_path: diskPath };
    }).catch(() => {});
    return hub.services.git.exists(diskPath);
  };
  const lost = () => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  expect(await attempt(lost, hashed('committed or not'))).toBe(true);
  expect(await attempt(() => new Error('a name was taken'), hashed('rolled back'))).toBe(false);
});
