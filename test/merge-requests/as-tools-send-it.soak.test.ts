import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { insertPipeline } from './support.ts';

// The calls of tools that live on merge requests, in the form that they send them (reference: merge-requests §10).

const app = useApp();

const commit = (client: Client, path: string, branch: string, more: Record<string, unknown> = {}, content = 'x\n') =>
  client.post(`${path}/repository/commits`, {
    branch,
    commit_message: `Change ${branch}`,
    actions: [{ action: 'create', file_path: `${branch}.txt`, content }],
    ...more,
  });

const setUp = async (attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app(), { initialize_with_readme: true, ...attributes });
  const { owner, path, people } = scene;
  expect((await commit(owner, path, 'topic', { start_branch: 'main' })).status).toBe(201);
  await app().make.projectMember(scene.project, people.stranger, 30);
  const open = async (body: Record<string, unknown> = {}) => {
    const { status, body: made } = await owner.post(`${path}/merge_requests`, {
      source_branch: 'topic',
      target_branch: 'main',
      title: 'Change',
      ...body,
    });
    expect([status, made]).toMatchObject([201, {}]);
    return made;
  };
  return { ...scene, open, at: `${path}/merge_requests/1` };
};

const ids = (people: readonly { readonly id: number }[]) => people.map(({ id }) => id);

describe('lists of people', () => {
  it('are cleared by zero and by nothing, and left alone by null', async () => {
    const { owner, open, at, people, project } = await setUp();
    const { maintainer, reporter } = people;
    const both = [maintainer.id, reporter.id].sort((a, b) => a - b);
    await open({ assignee_ids: both, reviewer_ids: both });
    const put = async (body: Record<string, unknown> | URLSearchParams, query = '') => {
      const { status, body: record } = await owner.put(`${at}${query}`, body);
      expect(status).toBe(200);
      return { assignees: ids(record.assignees), reviewers: ids(record.reviewers) };
    };
    const all = { assignees: both, reviewers: both };
    expect(await put({ assignee_ids: null, reviewer_ids: null, milestone_id: null, title: 'a' })).toEqual(all);
    // If nobody who is named can read it, the parameter is ignored.
    expect(await put({ assignee_ids: [999_999_999], reviewer_ids: [999_999_999], title: 'c' })).toEqual(all);
    // Nor can anyone be added whose account is not active. Who is there already may stay.
    const added = await app().make.user();
    await app().make.projectMember(project, added, 30);
    const states = app().hub.services.db.updateTable('users').where('id', 'in', [added.id, reporter.id]);
    for (const state of ['blocked', 'deactivated']) {
      await states.set({ state }).execute();
      const wanted = [...both, added.id];
      expect([state, await put({ assignee_ids: wanted, reviewer_ids: wanted })]).toEqual([state, all]);
    }
    await states.set({ state: 'active' }).execute();
    for (const nobody of [[0], [], '', 0]) {
      await put({ assignee_ids: both, reviewer_ids: both });
      expect([nobody, await put({ assignee_ids: nobody, reviewer_ids: nobody })]).toEqual([
        nobody,
        { assignees: [], reviewers: [] },
      ]);
    }
    for (const nobody of [0, '0', '', null]) {
      await put({ assignee_ids: both });
      expect([nobody, (await put({ assignee_id: nobody })).assignees]).toEqual([nobody, []]);
    }
    expect(await put({ assignee_id: maintainer.id })).toMatchObject({ assignees: [maintainer.id] });
    const form = new URLSearchParams();
    for (const id of both) form.append('assignee_ids[]', String(id));
    expect((await put(form)).assignees).toEqual(both);
    expect((await put({ reviewer_ids: both.join(',') })).reviewers).toEqual(both);
  });

  it('are set by a query without a body', async () => {
    const { owner, open, at, people } = await setUp();
    await open();
    const { status, body } = await owner.put(
      `${at}?assignee_ids[]=${people.maintainer.id}&reviewer_ids[]=${people.reporter.id}`,
    );
    expect([status, ids(body.assignees), ids(body.reviewers)]).toEqual([
      200,
      [people.maintainer.id],
      [people.reporter.id],
    ]);
    expect((await owner.put(`${at}?state_event=close`)).body.state).toBe('closed');
    expect((await owner.put(at)).status).toBe(400);
  });
});

describe('labels', () => {
  it('are comma strings or lists, in every call', async () => {
    const { owner, open, at } = await setUp();
    expect((await open({ labels: 'a, b' })).labels).toEqual(['a', 'b']);
    const put = async (body: Record<string, unknown>) => (await owner.put(at, body)).body.labels;
    expect(await put({ labels: ['c', 'd'] })).toEqual(['c', 'd']);
    expect(await put({ add_labels: ['e', 'f'] })).toEqual(['c', 'd', 'e', 'f']);
    expect(await put({ add_labels: 'g', remove_labels: 'c,d' })).toEqual(['e', 'f', 'g']);
    expect(await put({ remove_labels: ['e'] })).toEqual(['f', 'g']);
    expect(await put({ labels: null, title: 'Other' })).toEqual(['f', 'g']);
    expect(await put({ labels: '' })).toEqual([]);
  });
});

describe('renovate', () => {
  it('finds the requests that it compares', async () => {
    const { owner, people, path, project } = await setUp();
    const created = await owner.post(`${path}/merge_requests`, {
      source_branch: 'topic',
      target_branch: 'main',
      remove_source_branch: true,
      title: 'Update',
      description: 'Body',
      labels: 'dependencies,renovate',
      squash: false,
    });
    expect(created).toMatchObject({ status: 201, body: { iid: 1, force_remove_source_branch: true } });
    await app().settle();
    const head = (await owner.get(`${path}/repository/branches/topic`)).body.commit.id;
    const listed = await owner.get(
      `${path}/merge_requests?per_page=100&order_by=updated_at&sort=desc&scope=created_by_me&updated_after=2020-01-01T00:00:00.000Z`,
    );
    expect(listed.body).toMatchObject([
      {
        iid: 1,
        title: 'Update',
        state: 'opened',
        source_branch: 'topic',
        target_branch: 'main',
        description: 'Body',
        sha: head,
        labels: ['dependencies', 'renovate'],
        assignee: null,
        assignees: [],
        reviewers: [],
        author: { id: people.owner.id },
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ]);
    const pipeline = await insertPipeline(app().hub.services.db, {
      project_id: project.id,
      ref: 'topic',
      sha: head,
      status: 'running',
    });
    const one = (await owner.get(`${path}/merge_requests/1?include_diverged_commits_count=1`)).body;
    expect(one).toMatchObject({
      detailed_merge_status: 'mergeable',
      diverged_commits_count: 0,
      head_pipeline: { id: pipeline.id, sha: head, status: 'running' },
      pipeline: { status: 'running' },
      diff_refs: { head_sha: head },
    });
    const status = await owner.post(`${path}/statuses/${head}`, {
      state: 'success',
      context: 'renovate/stability-days',
      description: 'Fine',
      pipeline_id: pipeline.id,
    });
    expect(status.status).toBe(201);
    expect((await owner.get(path)).body).toMatchObject({
      merge_method: 'merge',
      squash_option: 'default_off',
      empty_repo: false,
      merge_requests_access_level: 'enabled',
    });
  });
});

describe('dependabot', () => {
  it('opens with null for what it does not set, and updates by a forced commit', async () => {
    const { owner, path, people, at } = await setUp();
    const branch = 'dependabot/npm/left-pad-2.0';
    expect((await owner.get(`${path}/repository/branches/${encodeURIComponent(branch)}`)).status).toBe(404);
    await owner.post(`${path}/repository/branches`, { branch, ref: 'main' });
    const update = (content: string, more: Record<string, unknown> = {}) =>
      commit(owner, path, branch, { actions: [{ action: 'create', file_path: 'lock.json', content }], ...more });
    expect((await update('1')).status).toBe(201);
    const list = `${path}/merge_requests?source_branch=${encodeURIComponent(branch)}&target_branch=main&state=all`;
    expect((await owner.get(list)).body).toEqual([]);
    const made = await owner.post(`${path}/merge_requests`, {
      source_branch: branch,
      target_branch: 'main',
      title: 'Bump left-pad',
      remove_source_branch: true,
      description: 'Bumps',
      labels: 'dependencies',
      assignee_ids: null,
      reviewer_ids: null,
      milestone_id: null,
      target_project_id: null,
    });
    expect(made).toMatchObject({
      status: 201,
      body: { author: { id: people.owner.id }, assignees: [], milestone: null },
    });
    expect((await owner.get(list)).body).toMatchObject([{ iid: 1 }]);
    await app().settle();
    const forced = await update('2', { force: true, start_branch: 'main' });
    expect(forced.status).toBe(201);
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({ state: 'opened', sha: forced.body.id, changes_count: '1' });
    expect((await owner.get(`${at}/versions`)).body).toHaveLength(2);
  });
});

describe('a release bot', () => {
  it('reads the same records twice, through the commit', async () => {
    const { owner, path, open, at } = await setUp();
    await owner.post(`${path}/issues`, { title: 'Broken' });
    const made = await open({ description: 'Closes #1' });
    await app().settle();
    await owner.put(`${at}/merge`);
    await app().settle();
    const { sha } = (await owner.get(at)).body;
    const read = async () => ({
      found: (await owner.get(`${path}/repository/commits/${sha}/merge_requests`)).body,
      closes: (await owner.get(`${at}/closes_issues`)).body,
      project: (await owner.get(path)).body.permissions,
    });
    const first = await read();
    expect(first.found).toMatchObject([{ id: made.id, iid: 1, state: 'merged', project_id: made.project_id }]);
    expect(first.closes).toMatchObject([{ iid: 1 }]);
    expect(await read()).toEqual(first);
  });
});

describe('glab', () => {
  it('opens in the source, and looks before it merges', async () => {
    const { owner, path, project, open, at } = await setUp();
    await open({ target_project_id: project.id });
    await app().settle();
    const [found] = (await owner.get(`${path}/merge_requests?source_branch=topic&state=opened`)).body;
    expect((await owner.get(`${path}/merge_requests/${found.iid}`)).body).toMatchObject({
      work_in_progress: false,
      has_conflicts: false,
      user: { can_merge: true },
      pipeline: null,
    });
    expect((await owner.put(`${at}/merge`, { sha: found.sha, squash: false })).body.state).toBe('merged');
  });

  it('opens right after a commit that starts the branch, once', async () => {
    const { owner, path } = await setUp();
    const [started, opened] = [
      await commit(owner, path, 'started', { start_branch: 'main' }),
      await owner.post(`${path}/merge_requests`, { source_branch: 'started', target_branch: 'main', title: 'At once' }),
    ];
    expect([started.status, opened.status]).toEqual([201, 201]);
    const again = { source_branch: 'started', target_branch: 'main', title: 'Again' };
    expect(await owner.post(`${path}/merge_requests`, again)).toMatchObject({
      status: 409,
      body: { message: [`Another open merge request already exists for this source branch: !${opened.body.iid}`] },
    });
    await owner.put(`${path}/merge_requests/${opened.body.iid}`, { state_event: 'close' });
    const two = await Promise.all([1, 2].map(() => owner.post(`${path}/merge_requests`, again)));
    expect(two.map(({ status }) => status).sort()).toEqual([201, 409]);
    // The closed one cannot come back beside it.
    expect((await owner.put(`${path}/merge_requests/${opened.body.iid}`, { state_event: 'reopen' })).status).toBe(409);
    await app().settle();
    const sha = started.body.id;
    const open = (await owner.get(`${path}/merge_requests?state=opened`)).body;
    expect(open).toMatchObject([{ sha, detailed_merge_status: 'mergeable' }]);
  });
});
