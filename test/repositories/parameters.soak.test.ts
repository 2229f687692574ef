import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestProject } from '../support/factories.ts';

// The parameters of writing files, reading history and downloading archives that the other files leave out.

const app = useApp();
let owner: TestUser;
let client: Client;
let project: TestProject;
let path: string;

const make = async () => {
  const made = await app().make.project({}, owner);
  const files = [
    { action: 'create', file_path: 'kept.txt', content: 'kept' },
    { action: 'create', file_path: 'folder/inside.txt', content: 'inside' },
  ];
  const at = `/projects/${made.id}/repository`;
  await client.post(`${at}/commits`, { branch: 'main', commit_message: 'First', actions: files });
  return { made, at };
};

beforeAll(async () => {
  owner = await app().make.user();
  client = app().as(owner);
  ({ made: project, at: path } = await make());
});

const read = async (file: string, ref: string, at = path) =>
  (await client.get(`${at}/files/${encodeURIComponent(file)}?ref=${ref}`)).body;

describe('files', () => {
  it('are created in base64, executable, on a new branch', async () => {
    const content = Buffer.from([0, 1, 2, 255]).toString('base64');
    const made = await client.post(`${path}/files/binary.dat`, {
      branch: 'with-binary',
      start_branch: 'main',
      commit_message: 'Add binary',
      encoding: 'base64',
      content,
      execute_filemode: true,
    });
    expect([made.status, made.body]).toEqual([201, { file_path: 'binary.dat', branch: 'with-binary' }]);
    expect(await read('binary.dat', 'with-binary')).toMatchObject({ content, size: 4, execute_filemode: true });
    expect((await client.get(`${path}/files/binary.dat?ref=main`)).status).toBe(404);
  });

  it('are written on top of a branch of another project', async () => {
    const { made: other, at } = await make();
    const start = { start_branch: 'main', start_project: other.id };
    const text = { content: 'new', commit_message: 'From another project' };
    const created = await client.post(`${path}/files/created.txt`, { branch: 'c-other', ...start, ...text });
    expect(created.status).toBe(201);
    const changed = await client.put(`${path}/files/kept.txt`, { branch: 'u-other', ...start, ...text });
    expect(changed.status).toBe(200);
    const deleted = await client.delete(`${path}/files/kept.txt`, {
      branch: 'd-other',
      commit_message: 'Delete',
      ...start,
    });
    expect(deleted.status).toBe(204);
    const parent = (await client.get(`${at}/commits/main`)).body.id;
    for (const branch of ['c-other', 'u-other', 'd-other'])
      expect((await client.get(`${path}/commits/${branch}`)).body.parent_ids).toEqual([parent]);
    expect((await read('kept.txt', 'u-other')).content).toBe(Buffer.from('new').toString('base64'));
    expect((await client.get(`${path}/files/kept.txt?ref=d-other`)).status).toBe(404);
  });

  it('are changed and deleted only if nobody else changed them', async () => {
    const branch = 'guarded';
    await client.post(`${path}/branches`, { branch, ref: 'main' });
    const { last_commit_id: stale } = await read('kept.txt', branch);
    const file = `${path}/files/kept.txt`;
    const change = (last_commit_id: string, content: string) =>
      client.put(file, { branch, commit_message: 'Change', content, last_commit_id });
    expect((await change(stale, 'second')).status).toBe(200);
    const { last_commit_id: current } = await read('kept.txt', branch);
    expect(current).not.toBe(stale);
    expect((await change(stale, 'third')).status).toBe(400);
    // Clients with static types send an empty id if they know none.
    expect((await change('', 'second again')).status).toBe(200);
    expect((await change(current, 'third')).status).toBe(400);
    expect((await change('', 'second')).status).toBe(200);
    const { last_commit_id: newest } = await read('kept.txt', branch);
    const actions = (last_commit_id: string) => ({
      branch,
      commit_message: 'Change',
      actions: [{ action: 'update', file_path: 'kept.txt', content: 'by a commit', last_commit_id }],
    });
    expect((await client.post(`${path}/commits`, actions(stale))).status).toBe(400);
    expect((await client.post(`${path}/commits`, actions(newest))).status).toBe(201);
    const { last_commit_id: latest } = await read('kept.txt', branch);
    const author = { author_name: 'Ada', author_email: 'ada@example.com' };
    const remove = (last_commit_id: string) =>
      client.delete(file, { branch, commit_message: 'Remove', last_commit_id, ...author });
    expect((await remove(newest)).status).toBe(400);
    expect((await remove(latest)).status).toBe(204);
    expect((await client.get(`${path}/commits/${branch}`)).body).toMatchObject({ title: 'Remove', ...author });
    // A new file has no last commit that could be wrong.
    const again = { branch, commit_message: 'Again', content: 'again', last_commit_id: latest };
    expect((await client.post(file, again)).status).toBe(201);
  });
});

describe('commits', () => {
  it('are reverted with a message, or only tried', async () => {
    await client.post(`${path}/branches`, { branch: 'reverting', ref: 'main' });
    const { body } = await client.post(`${path}/commits`, {
      branch: 'reverting',
      commit_message: 'To revert',
      actions: [{ action: 'create', file_path: 'extra.txt', content: 'x' }],
    });
    const revert = (more: Record<string, unknown>) =>
      client.post(`${path}/commits/${body.id}/revert`, { branch: 'reverting', ...more });
    expect(await revert({ dry_run: true })).toMatchObject({ status: 200, body: { dry_run: 'success' } });
    expect((await client.get(`${path}/commits/reverting`)).body.id).toBe(body.id);
    const done = await revert({ message: 'Undone on purpose' });
    expect(done).toMatchObject({ status: 201, body: { title: 'Undone on purpose', parent_ids: [body.id] } });
    expect((await client.get(`${path}/files/extra.txt?ref=reverting`)).status).toBe(404);
  });
});

it('archives hold one folder of one commit', async () => {
  const first = (await client.get(`${path}/commits/main`)).body.id;
  await client.post(`${path}/commits`, {
    branch: 'main',
    commit_message: 'Later',
    actions: [{ action: 'create', file_path: 'folder/later.txt', content: 'later' }],
  });
  const names = async (query: string) => {
    const response = await client.fetch('GET', `${path}/archive?format=tar&${query}`);
    expect(response.status).toBe(200);
    return Buffer.from(await response.arrayBuffer()).toString('latin1');
  };
  const old = await names(`sha=${first}&path=folder`);
  expect(old).toContain('inside.txt');
  expect(old).not.toContain('later.txt');
  expect(old).not.toContain('kept.txt');
  const now = await names('sha=main');
  for (const name of ['inside.txt', 'later.txt', 'kept.txt']) expect(now).toContain(name);
});

it('changelogs end at `to` and group by `trailer`', async () => {
  const { at } = await make();
  const first = (await client.get(`${at}/commits/main`)).body.id;
  const commit = async (title: string, kind: string) =>
    (
      await client.post(`${at}/commits`, {
        branch: 'main',
        commit_message: `${title}\n\nChangelog: added\nKind: ${kind}`,
        actions: [{ action: 'create', file_path: `${kind}.txt`, content: 'x' }],
      })
    ).body.id;
  const one = await commit('Add one', 'large');
  await commit('Add two', 'small');
  const written = await client.post(`${at}/changelog`, {
    version: '1.0.0',
    from: first,
    to: one,
    trailer: 'Kind',
    branch: 'main',
  });
  expect(written.body.notes).toContain('### large (1 change)');
  expect(written.body.notes).not.toContain('Add two');
  const range = { version: '2.0.0', from: first, config_file: '', config_file_ref: '' };
  const shown = await client.get(`${at}/changelog?${new URLSearchParams(range)}`);
  expect(shown.body.notes).toContain('Add two');
  expect((await client.post(`${at}/changelog`, range)).status).toBe(200);
  for (const name of ['config_file', 'config_file_ref'])
    expect((await client.get(`${at}/changelog?${new URLSearchParams({ ...range, [name]: 'x' })}`)).status).toBe(400);
});

it('housekeeping has one task', async () => {
  const at = `/projects/${project.id}/housekeeping`;
  expect((await client.post(at, { task: 'eager' })).status).toBe(201);
  expect((await client.post(at, { task: 'prune' })).status).toBe(400);
});

it('forks go to the namespace, by id or path', async () => {
  const [one, two] = [await app().make.group({}, owner), await app().make.group({}, owner)];
  for (const [namespace, full_path] of [
    [one.id, one.full_path],
    [two.full_path, two.full_path],
  ]) {
    const made = await client.post(`/projects/${project.id}/fork`, { namespace });
    expect(made).toMatchObject({ status: 201, body: { namespace: { full_path } } });
  }
});

it('groups that a project can move to are searched', async () => {
  const [near, far] = [
    await app().make.group({ name: 'Near heron' }, owner),
    await app().make.group({ name: 'Far egret' }, owner),
  ];
  const found = async (query: string) =>
    (await client.get(`/projects/${project.id}/transfer_locations?per_page=100${query}`)).body.map(
      ({ id }: { id: number }) => id,
    );
  expect(await found('')).toEqual(expect.arrayContaining([near.id, far.id]));
  expect(await found('&search=HERON')).toEqual([near.id]);
});
