import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import type { EventRow } from '#platform/events.ts';
import { commitFile, remoteOf, runGit, useFolder, workTree } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import { pipelineScene } from './pipeline-scene.ts';

const app = useApp();
const folder = useFolder();

const setUp = async (attributes: Record<string, unknown> = {}) => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private', ...attributes }, owner);
  const tree = await workTree(folder());
  await pushTree(app(), project, owner, tree, 'main', 'main:feature');
  const sha = await runGit(tree, 'rev-parse', 'HEAD');
  return { owner, project, tree, sha, path: `/projects/${project.id}` };
};
const memberOf = async (project: { id: number }, level: number): Promise<TestUser> => {
  const user = await app().make.user();
  await app().make.projectMember(project, user, level);
  return user;
};

describe('POST statuses', () => {
  it('leaves the job of that name alone, and on protected branches asks for the right to run jobs', async () => {
    const { client, path, sha, project, newest, finish, shown } = await pipelineScene(app(), 'test: {script: [x]}');
    const { id } = await newest();
    await finish(id, 'test', 'failed');
    const report = { state: 'success', name: 'test' };
    const developer = app().as(await memberOf(project, 30));
    await client.delete(`${path}/protected_branches/main`);
    await client.post(`${path}/protected_branches`, { name: 'main', push_access_level: 40, merge_access_level: 40 });
    expect((await developer.post(`${path}/statuses/${sha}`, report)).status).toBe(403);
    expect(await client.post(`${path}/statuses/${sha}`, report)).toMatchObject({
      status: 201,
      body: { pipeline_id: id },
    });
    expect(await shown(id)).toBe('test failed');
    expect((await newest()).status).toBe('failed');
  });

  it('reports a status and moves it through its states', async () => {
    const { owner, project, path, sha } = await setUp();
    const client = app().as(owner);
    const first = await client.post(`${path}/statuses/${sha}`, {
      state: 'pending',
      name: 'ci/build',
      target_url: 'https://ci.example.com/1?a=b',
      description: 'Queued',
      coverage: '81.5',
    });
    expect(first.status).toBe(201);
    expect(first.body).toEqual({
      id: expect.any(Number),
      sha,
      ref: 'main',
      status: 'pending',
      name: 'ci/build',
      target_url: 'https://ci.example.com/1?a=b',
      description: 'Queued',
      created_at: expect.any(String),
      started_at: null,
      finished_at: null,
      allow_failure: false,
      coverage: 81.5,
      pipeline_id: expect.any(Number),
      author: expect.objectContaining({ id: owner.id, username: owner.username }),
    });
    const running = await client.post(`${path}/statuses/${sha}?state=running&context=ci%2Fbuild`);
    expect(running.body).toMatchObject({ id: first.body.id, status: 'running', started_at: expect.any(String) });
    const again = await client.post(`${path}/statuses/${sha}`, { state: 'running', name: 'ci/build' });
    expect([again.status, again.body]).toEqual([
      400,
      { message: 'Cannot transition status via :run from :running (Reason(s): Status cannot transition via "run")' },
    ]);
    const back = await client.post(`${path}/statuses/${sha}`, { state: 'pending', name: 'ci/build' });
    expect(back.body.message).toContain('Cannot transition status via :enqueue from :running');
    const done = await client.post(`${path}/statuses/${sha}`, {
      state: 'success',
      name: 'ci/build',
      description: 'Ok',
    });
    expect(done.body).toMatchObject({
      id: first.body.id,
      status: 'success',
      description: 'Ok',
      target_url: 'https://ci.example.com/1?a=b',
      finished_at: expect.any(String),
    });
    const pipeline = await client.get(`${path}/pipelines/${first.body.pipeline_id}`);
    expect(pipeline.body).toMatchObject({
      iid: 1,
      sha,
      ref: 'main',
      source: 'external',
      status: 'success',
      coverage: '81.50',
    });
    // A report after a final state creates a new status beside the finished one.
    const anew = await client.post(`${path}/statuses/${sha}`, { state: 'failed', name: 'ci/build' });
    expect(anew.body.id).toBeGreaterThan(first.body.id);
    const list = async (query = '') =>
      (await client.get(`${path}/repository/commits/${sha}/statuses${query}`)).body.map(
        ({ name, status }: { name: string; status: string }) => `${name} ${status}`,
      );
    expect(await list()).toEqual(['ci/build failed']);
    expect(await list('?all=true')).toEqual(['ci/build success', 'ci/build failed']);
    expect((await client.get(`${path}/pipelines/${first.body.pipeline_id}`)).body.status).toBe('failed');
    // External statuses are not listed as jobs.
    expect((await client.get(`${path}/jobs`)).body).toEqual([]);

    const { rows } = await app().hub.services.pool.query(
      `select kind, payload ->> 'status' as status, actor_id, min_access_level from events where project_id = $1
       and (kind like 'pipeline.%' or kind like 'commit_status.%') order by id`,
      [project.id],
    );
    expect(rows.map(({ kind, status }) => `${kind} ${status}`)).toEqual([
      'pipeline.created pending',
      'commit_status.reported pending',
      'pipeline.updated running',
      'commit_status.reported running',
      'pipeline.updated success',
      'commit_status.reported success',
      'pipeline.updated failed',
      'commit_status.reported failed',
    ]);
    expect(rows[0]).toMatchObject({ actor_id: owner.id, min_access_level: 20 });
  });

  it('builds the webhook body of the pipeline', async () => {
    const { owner, project, path, sha } = await setUp();
    await app().as(owner).post(`${path}/statuses/${sha}`, { state: 'running', name: 'ci/build' });
    const { rows } = await app().hub.services.pool.query<EventRow>(
      "select * from events where project_id = $1 and kind = 'pipeline.created'",
      [project.id],
    );
    const [event] = rows;
    const definition = eventDefinitions.find(({ kind }) => kind === 'pipeline.created');
    if (!event || !definition) throw new Error('nothing was told');
    expect(definition.trigger(event.payload)).toBe('pipeline_events');
    expect(await definition.body(app().context(), event)).toMatchObject({
      object_kind: 'pipeline',
      object_attributes: { iid: 1, ref: 'main', sha, source: 'external', status: 'running' },
      user: { username: owner.username },
      project: { path_with_namespace: project.path_with_namespace },
      commit: { id: sha },
      builds: [],
    });
  });

  it('adds statuses to one pipeline per commit and branch, or to the pipeline that the request names', async () => {
    const { owner, path, sha, project, tree } = await setUp();
    const client = app().as(owner);
    const report = async (body: Record<string, unknown>, revision = sha) =>
      (await client.post(`${path}/statuses/${revision}`, { state: 'success', ...body })).body;
    const first = await report({});
    expect(first).toMatchObject({ name: 'default', ref: 'main', coverage: null, target_url: null, description: null });
    const second = await report({ name: 'lint', state: 'running' });
    expect(second.pipeline_id).toBe(first.pipeline_id);
    const elsewhere = await report({ name: 'lint', ref: 'feature' });
    expect(elsewhere.pipeline_id).not.toBe(first.pipeline_id);
    expect(await report({ name: 'x', pipeline_id: first.pipeline_id })).toMatchObject({
      pipeline_id: first.pipeline_id,
      ref: 'main',
    });
    const statuses = `${path}/repository/commits/${sha}/statuses`;
    const names = async (query: string) =>
      (await client.get(`${statuses}?${query}`)).body.map(
        ({ name, ref }: { name: string; ref: string }) => `${name} ${ref}`,
      );
    expect(await names('')).toEqual(['default main', 'lint main', 'lint feature', 'x main']);
    expect(await names('ref=feature')).toEqual(['lint feature']);
    expect(await names('name=lint&sort=desc')).toEqual(['lint feature', 'lint main']);
    expect(await names('order_by=pipeline_id')).toEqual(['default main', 'lint main', 'x main', 'lint feature']);
    expect(await names(`pipeline_id=${elsewhere.pipeline_id}`)).toEqual(['lint feature']);
    expect(await names('stage=external&per_page=1&page=2')).toEqual(['lint main']);
    expect(await names('stage=build')).toEqual([]);
    // Statuses are found by branch and by short id. The last commit is only on another branch.
    expect((await client.get(`${path}/repository/commits/main/statuses`)).body).toHaveLength(4);
    expect((await client.get(`${path}/repository/commits/${sha.slice(0, 8)}/statuses`)).body).toHaveLength(4);
    const next = await commitFile(tree, 'b', 'b', 'Second');
    await runGit(tree, 'push', '-q', await remoteOf(app(), project, owner), 'main:refs/heads/work');
    expect(await report({}, next)).toMatchObject({ sha: next, ref: 'work' });
  });

  it('creates one pipeline and one status from twenty concurrent requests', async () => {
    const { owner, path, sha } = await setUp();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => app().as(owner).post(`${path}/statuses/${sha}`, { state: 'running' })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 400)]);
    expect((await app().as(owner).get(`${path}/pipelines`)).body).toHaveLength(1);
    expect((await app().as(owner).get(`${path}/repository/commits/${sha}/statuses?all=true`)).body).toHaveLength(1);
  });

  it('refuses invalid reports and writes nothing', async () => {
    const { owner, path, sha } = await setUp();
    const client = app().as(owner);
    const post = async (body: Record<string, unknown>, revision = sha) => {
      const { status, body: answer } = await client.post(`${path}/statuses/${revision}`, body);
      return [status, answer];
    };
    expect(await post({})).toEqual([400, { error: 'state is missing' }]);
    expect((await post({ state: 'created' }))[1].error).toContain('state does not have a valid value');
    expect(await post({ state: 'success' }, 'f'.repeat(40))).toEqual([404, { message: '404 Commit Not Found' }]);
    expect(await post({ state: 'success', pipeline_id: 999_999 })).toEqual([
      404,
      { message: '404 Pipeline Not Found' },
    ]);
    for (const target_url of ['javascript:alert(1)', 'data:text/html,x', '/x', 'ftp://x', 'x']) {
      expect(await post({ state: 'success', target_url }), target_url).toEqual([
        400,
        { message: { target_url: ['is blocked: Only allowed schemes are http, https'] } },
      ]);
    }
    for (const bad of [
      { name: '' },
      { name: 'x'.repeat(256) },
      { description: 'x'.repeat(2_049) },
      { coverage: 'x' },
      { coverage: 101 },
      { ref: '-x' },
      { ref: 'a..b' },
      { name: ['x'] },
      { pipeline_id: 'x' },
    ]) {
      expect((await post({ state: 'success', ...bad }))[0], JSON.stringify(bad)).toBe(400);
    }
    expect((await client.get(`${path}/pipelines`)).body).toEqual([]);
    expect((await client.get(`${path}/repository/commits/${'f'.repeat(40)}/statuses`)).body).toEqual({
      message: '404 Commit Not Found',
    });
  });

  it('requires the Developer role to report and the Reporter role to read', async () => {
    const { owner, project, path, sha } = await setUp();
    const send = (user: TestUser, scopes?: readonly string[]) =>
      app().as(user, scopes).post(`${path}/statuses/${sha}`, { state: 'success' });
    expect((await send(await memberOf(project, 30))).status).toBe(201);
    expect((await send(await memberOf(project, 20))).status).toBe(403);
    expect((await send(await app().make.user())).status).toBe(404);
    expect((await send(owner, ['read_api'])).status).toBe(403);
    expect((await app().anonymous.post(`${path}/statuses/${sha}`, { state: 'success' })).status).toBe(401);
    const read = async (user: TestUser) =>
      (await app().as(user).get(`${path}/repository/commits/${sha}/statuses`)).status;
    expect(await read(await memberOf(project, 20))).toBe(200);
    expect(await read(await memberOf(project, 10))).toBe(403);
    expect(await read(await app().make.user())).toBe(404);
    expect((await app().anonymous.get(`${path}/repository/commits/${sha}/statuses`)).status).toBe(404);
  });

  it('keeps the statuses of two reporters apart and counts the newest of each name', async () => {
    const { owner, project, path, sha } = await setUp();
    const developer = await memberOf(project, 30);
    const one = (await app().as(owner).post(`${path}/statuses/${sha}`, { state: 'running' })).body;
    const two = (await app().as(developer).post(`${path}/statuses/${sha}`, { state: 'success' })).body;
    expect([two.id > one.id, two.pipeline_id, two.author.id]).toEqual([true, one.pipeline_id, developer.id]);
    const { body } = await app().as(owner).get(`${path}/repository/commits/${sha}/statuses`);
    expect(body.map(({ id }: { id: number }) => id)).toEqual([two.id]);
    expect((await app().as(owner).get(`${path}/pipelines/${one.pipeline_id}`)).body.status).toBe('success');
  });
});
