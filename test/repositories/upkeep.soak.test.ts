import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { forgetFetches } from '#domains/repositories/fetches.ts';
import { packRepository } from '#domains/repositories/packing.ts';
import { settlePushes } from '#domains/repositories/pushes.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { remoteOf, runGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

describe('GET /projects/:id/statistics', () => {
  it('counts the fetches that sent objects', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({}, owner);
    const fetches = async () => (await client.get(`/projects/${project.id}/statistics`)).body.fetches;
    expect(await fetches()).toEqual({ total: 0, days: [] });
    const tree = await workTree(folder());
    const remote = await remoteOf(app(), project, owner);
    await runGit(tree, 'push', '-q', remote, 'main');
    await runGit(folder(), 'clone', '-q', remote, 'one');
    await runGit(folder(), '-c', 'protocol.version=0', 'clone', '-q', remote, 'two');
    // This fetch has nothing new and reads only the names of refs.
    await runGit(`${folder()}/one`, 'fetch', '-q');
    await until('the fetches are written', async () => (await fetches()).total >= 2);
    const { total, days } = await fetches();
    expect([total, days]).toEqual([2, [{ count: 2, date: expect.stringMatching(/^\d{4}-\d\d-\d\d$/) }]]);
    const query = `{ project(fullPath: "${project.path_with_namespace}") { fetches { date count } } }`;
    expect((await client.graphql(query)).data.project.fetches).toEqual(days);
    await sql`insert into project_fetches (project_id, day, count) values
      (${project.id}, current_date - 29, 5), (${project.id}, current_date - 30, 7)`.execute(app().hub.services.db);
    expect((await fetches()).total).toBe(7);
    await forgetFetches.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    const { rows } = await sql`select 1 from project_fetches where project_id = ${project.id}`.execute(
      app().hub.services.db,
    );
    expect(rows).toHaveLength(2);
  });
});

describe('the upkeep of a repository', () => {
  it('requires the role for statistics, storage and housekeeping', async () => {
    const { make } = app();
    const [owner, maintainer, guest, stranger] = [
      await make.user(),
      await make.user(),
      await make.user(),
      await make.user(),
    ];
    const project = await make.project({}, owner);
    await make.projectMember(project, maintainer, 40);
    await make.projectMember(project, guest, 10);
    const as = (user: TestUser) => app().as(user);
    const path = `/projects/${project.id}`;
    const statistics = async (user: TestUser) => (await as(user).get(`${path}/statistics`)).status;
    expect(await Promise.all([maintainer, guest, stranger].map(statistics))).toEqual([200, 403, 404]);
    expect((await app().anonymous.get(`${path}/statistics`)).status).toBe(401);
    const storage = async (user: TestUser) => (await as(user).get(`${path}/storage`)).status;
    expect(await Promise.all([app().root, owner].map(storage))).toEqual([200, 403]);
    const housekeeping = async (user: TestUser) => (await as(user).post(`${path}/housekeeping`)).status;
    expect(await Promise.all([owner, maintainer, stranger].map(housekeeping))).toEqual([201, 403, 404]);
    expect((await app().anonymous.post(`${path}/housekeeping`)).status).toBe(401);
    expect((await as(owner).post(`${path}/housekeeping`, { task: 'prune' })).status).toBe(400);
    const fullPath = project.path_with_namespace;
    const pack = async (user: TestUser) =>
      (
        await as(user).graphql(
          `mutation { projectHousekeeping(input: { fullPath: "${fullPath}" }) { errors project { name } } }`,
        )
      ).data.projectHousekeeping;
    expect((await pack(owner)).errors).toEqual([]);
    expect(await pack(maintainer)).toBeNull();
    const fetches = `{ project(fullPath: "${fullPath}") { fetches { count } } }`;
    expect((await as(guest).graphql(fetches)).data.project.fetches).toBeNull();
  });

  it('shows where the repository is stored', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const { body } = await app().as(app().root).get(`/projects/${project.id}/storage`);
    expect(body).toEqual({
      project_id: project.id,
      disk_path: expect.stringMatching(/^@hashed\/[0-9a-f]{2}\/[0-9a-f]{2}\/[0-9a-f]{64}$/),
      created_at: expect.stringMatching(/^\d{4}-/),
      repository_storage: 'default',
    });
  });

  it('packs the repository', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const { git, db } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const loose = async () =>
      Number(
        /count: (\d+)/.exec(
          await runGit(`${app().hub.services.config.dataDir}/repositories/${disk_path}`, 'count-objects', '-v'),
        )?.[1],
      );
    expect(await loose()).toBe(3);
    await app().as(owner).post(`/projects/${project.id}/housekeeping`);
    await app().settle();
    expect(await loose()).toBe(0);
    expect(await git.isEmpty(disk_path)).toBe(false);
  });

  it('packs it after a push of many refs, which are stored in one file each', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const { db, config } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const tree = await workTree(folder());
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    for (let n = 0; n < 400; n += 1) await writeFile(`${tree}/.git/refs/heads/b${n}`, `${head}\n`);
    await runGit(tree, 'push', '-q', await remoteOf(app(), project, owner), '--all');
    const packed = () => readFile(`${config.dataDir}/repositories/${disk_path}/packed-refs`, 'utf8').catch(() => '');
    await until('the refs are packed', async () => (await packed()).includes(' refs/heads/b399\n'));
    expect(
      (await app().as(owner).get(`/projects/${project.id}/repository/branches?search=b`)).headers.get('x-total'),
    ).toBe('400');
  });
});

describe('housekeeping_optimize_repository_period', () => {
  const set = async (period: number) =>
    app().as(app().root).put('/application/settings', { housekeeping_optimize_repository_period: period });
  const scene = async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const { db, config } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const repository = `${config.dataDir}/repositories/${disk_path}`;
    let count = 0;
    return {
      id: project.id,
      repository,
      push: async () => {
        const file = { branch: 'main', content: `${++count}`, commit_message: 'Add' };
        const { status } = await app().as(owner).post(`/projects/${project.id}/repository/files/f${count}`, file);
        expect(status).toBe(201);
        await app().settle();
      },
      loose: async () => Number(/count: (\d+)/.exec(await runGit(repository, 'count-objects', '-v'))?.[1]),
      upkeep: () =>
        db
          .selectFrom('repository_upkeep')
          .select(['pushes_since_gc', 'packings_since_gc', 'packing_process_id'])
          .where('project_id', '=', project.id)
          .executeTakeFirstOrThrow(),
    };
  };
  const attempt = { attempt: 1, lastAttempt: false };

  it('packs a repository and writes its commit graph after so many pushes', async () => {
    await set(1_000);
    const { push, loose, repository, upkeep, id } = await scene();
    await push();
    await push();
    expect(await loose()).toBe(9);
    await set(3);
    await push();
    expect(await loose()).toBe(0);
    expect(await readFile(`${repository}/objects/info/commit-graphs/commit-graph-chain`, 'utf8')).toMatch(
      /^[0-9a-f]{40}/,
    );
    expect(await readFile(`${repository}/packed-refs`, 'utf8')).toContain(' refs/heads/main');
    expect(await upkeep()).toEqual({ pushes_since_gc: 0, packings_since_gc: 1, packing_process_id: null });
    expect((await app().as(app().root).get(`/projects/${id}/repository/commits`)).body).toHaveLength(4);
    await push();
    expect(await loose()).toBe(3);
    const { db } = app().hub.services;
    await db.updateTable('repository_upkeep').set({ packings_since_gc: 20 }).where('project_id', '=', id).execute();
    await push();
    await push();
    expect([await loose(), (await upkeep()).packings_since_gc]).toEqual([0, 0]);
    await runGit(repository, 'fsck', '--strict');
  });

  it('lets one process at a time pack a repository, and takes it over from a dead one', async () => {
    await set(1_000);
    const { push, loose, upkeep, id } = await scene();
    await push();
    const { db, processId } = app().hub.services;
    const claimBy = (process: string) =>
      db.updateTable('repository_upkeep').set({ packing_process_id: process }).where('project_id', '=', id).execute();
    const pack = () => packRepository.run(app().context(), { project_id: id, quick: true }, attempt);
    const other = randomUUID();
    await db.insertInto('hub_processes').values({ id: other, role: 'web', hostname: 'other' }).execute();
    await claimBy(other);
    await pack();
    expect([await loose(), (await upkeep()).packing_process_id]).toEqual([6, other]);
    await claimBy(randomUUID());
    await pack();
    expect([await loose(), (await upkeep()).packing_process_id]).toEqual([0, null]);
    // This process could not release its claim.
    await push();
    await claimBy(processId);
    await pack();
    expect([await loose(), (await upkeep()).packing_process_id]).toEqual([0, null]);
  });

  it('packs a repository once at a time in one process', async () => {
    await set(1_000);
    const { push, loose, upkeep, id } = await scene();
    await push();
    const { pool } = app().hub.services;
    const pack = () => packRepository.run(app().context(), { project_id: id, quick: true }, attempt);
    await Promise.all([pack(), pack()]);
    expect([await loose(), (await upkeep()).packings_since_gc]).toEqual([0, 1]);
    const { rows } = await pool.query('select run_at > now() as later from graphile_worker.jobs where key = $1', [
      `repositories.pack:${id}`,
    ]);
    expect(rows).toEqual([{ later: true }]);
  });
});

it('forgets recorded pushes after a day', async () => {
  const project = await app().make.project();
  const { db, processId } = app().hub.services;
  const kept: number[] = [];
  for (const [state, days] of [
    ['recorded', 2],
    ['recorded', 0],
    ['receiving', 2],
  ] as const) {
    const { id } = await db
      .insertInto('pushes')
      .values({
        project_id: project.id,
        process_id: processId,
        commands: '[]',
        refs: [],
        state,
        created_at: new Date(Date.now() - days * 86_400_000).toISOString(),
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    if (state === 'receiving' || days === 0) kept.push(id);
  }
  await settlePushes.run(app().context(), {}, { attempt: 1, lastAttempt: false });
  const left = await db.selectFrom('pushes').select('id').where('project_id', '=', project.id).orderBy('id').execute();
  expect(left.map(({ id }) => id)).toEqual(kept);
});
