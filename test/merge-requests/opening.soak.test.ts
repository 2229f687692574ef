import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { defaultMessages } from '#domains/merge-requests/merging/default-messages.ts';
import { getMergeRequest } from '#domains/merge-requests/queries.ts';
import { toMergeRequest } from '#domains/merge-requests/record.ts';
import { getProject } from '#domains/projects/queries.ts';
import { moveRefs } from '#domains/repositories/pushes.ts';
import { Receiver } from '../hooks/receiver.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { pushCommits, README } from '../support/commits.ts';
import { until } from '../support/until.ts';

const app = useApp();

interface File {
  readonly branch: string;
  readonly path: string;
  readonly content?: string;
  readonly start_branch?: string;
}

/** Commits a file over the API, on a branch that it creates if `start_branch` is given. */
const commit = async (client: Client, project: string, { branch, path, content = 'text\n', start_branch }: File) => {
  const answer = await client.post(`${project}/repository/commits`, {
    branch,
    ...(start_branch ? { start_branch } : {}),
    commit_message: `Change ${path}`,
    actions: [{ action: 'create', file_path: path, content }],
  });
  expect(answer.status).toBe(201);
  return answer.body.id as string;
};

/** Creates a project with a branch `feature` that is one commit ahead of `main`. */
const makeBranches = async (attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app(), attributes);
  const [, head] = await pushCommits(app(), scene.project, scene.people.owner, [
    README,
    { branch: 'feature', from: 'main', files: { 'new.txt': 'text\n' } },
  ]);
  if (head === undefined) throw new Error('there are too few commits');
  await app().settle();
  return { ...scene, head };
};

const feature = { source_branch: 'feature', target_branch: 'main', title: 'Add a file' };

const opened = async (client: Client, path: string, attributes: Record<string, unknown> = {}) => {
  const answer = await client.post(`${path}/merge_requests`, { ...feature, ...attributes });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body;
};

const events = async (projectId: number) =>
  app()
    .hub.services.db.selectFrom('events')
    .select(['kind', 'payload'])
    .where('project_id', '=', projectId)
    .where('kind', 'like', 'merge_request.%')
    .orderBy('id')
    .execute();
const kinds = async (projectId: number) => (await events(projectId)).map(({ kind }) => kind);

const diskPath = async (projectId: number): Promise<string> => {
  const { db } = app().hub.services;
  const row = await db.selectFrom('projects').select('disk_path').where('id', '=', projectId).executeTakeFirstOrThrow();
  return row.disk_path;
};

describe('opening a merge request', () => {
  it('answers at once and prepares the diff in a job', async () => {
    const { owner, path, project, people, head } = await makeBranches();
    const made = await opened(owner, path, { description: '- [x] done', remove_source_branch: true });
    expect(made).toMatchObject({
      iid: 1,
      project_id: project.id,
      source_project_id: project.id,
      target_project_id: project.id,
      state: 'opened',
      title: 'Add a file',
      description: '- [x] done',
      author: { id: people.owner.id },
      merge_status: 'checking',
      detailed_merge_status: 'preparing',
      sha: head,
      diff_refs: null,
      changes_count: null,
      prepared_at: null,
      force_remove_source_branch: true,
      squash: false,
      imported: false,
    });
    await app().settle();
    const main = (await owner.get(`${path}/repository/branches/main`)).body.commit.id;
    const at = `${path}/merge_requests/1`;
    expect((await owner.get(at)).body).toMatchObject({
      merge_status: 'can_be_merged',
      detailed_merge_status: 'mergeable',
      sha: head,
      changes_count: '1',
      diff_refs: { base_sha: main, head_sha: head, start_sha: main },
      prepared_at: expect.any(String),
    });
    expect((await owner.get(`${at}/diffs`)).body).toMatchObject([
      { new_path: 'new.txt', new_file: true, diff: expect.stringContaining('+text') },
    ]);
    expect((await owner.get(`${at}/commits`)).body).toMatchObject([{ id: head, title: 'Change new.txt' }]);
    expect((await owner.get(`${at}/changes`)).body).toMatchObject({
      changes: [{ new_path: 'new.txt' }],
      overflow: false,
    });
    expect(await kinds(project.id)).toEqual([
      'merge_request.opened',
      'merge_request.prepared',
      'merge_request.checked',
    ]);
    // Git clients can fetch it by its number.
    const repository = await diskPath(project.id);
    expect(await app().hub.services.git.resolve(repository, 'refs/merge-requests/1/head')).toBe(head);
  });

  it('sets labels, milestone, assignees and reviewers for Developers', async () => {
    const { owner, path, people } = await makeBranches();
    const milestone = await owner.post(`${path}/milestones`, { title: 'm' });
    expect(
      await opened(owner, path, {
        title: 'Draft: all of it',
        labels: 'bug, ui',
        milestone_id: milestone.body.id,
        assignee_ids: [people.reporter.id, people.stranger.id],
        reviewer_ids: [people.maintainer.id],
        squash: true,
        allow_collaboration: true,
        approvals_before_merge: 2,
      }),
    ).toMatchObject({
      draft: true,
      labels: ['bug', 'ui'],
      milestone: { id: milestone.body.id },
      // Users who cannot read it are left out.
      assignees: [{ id: people.reporter.id }],
      reviewers: [{ id: people.maintainer.id }],
      squash: true,
      approvals_before_merge: 2,
    });
    // Only merge requests of forks have it.
    expect((await owner.get(`${path}/merge_requests/1`)).body).not.toHaveProperty('allow_collaboration');
  });

  it('squashes as the project demands', async () => {
    const { owner, path } = await makeBranches({ squash_option: 'always' });
    expect(await opened(owner, path, { squash: false })).toMatchObject({ squash: true });
  });

  it('takes the former names of parameters', async () => {
    const { owner, path, people } = await makeBranches();
    const former = { assignee_id: people.maintainer.id, allow_maintainer_to_push: true };
    const made = await opened(owner, path, former);
    expect(made).toMatchObject({ assignees: [{ id: people.maintainer.id }] });
    expect(made).not.toHaveProperty('allow_maintainer_to_push');
    const both = { ...feature, source_branch: 'other', ...former, assignee_ids: [] };
    expect((await owner.post(`${path}/merge_requests`, both)).status).toBe(400);
  });

  it('refuses branches and projects that do not fit', async () => {
    const { owner, path } = await makeBranches();
    const other = await makeBranches({ visibility: 'public' });
    const post = (body: object) => owner.post(`${path}/merge_requests`, { ...feature, ...body });
    expect(await post({ source_branch: 'main' })).toMatchObject({
      status: 422,
      body: { message: ["You can't use same project/branch for source and target"] },
    });
    expect(await post({ source_branch: 'a..b' })).toMatchObject({
      status: 400,
      body: { message: { source_branch: ['is invalid'] } },
    });
    expect(await post({ title: ' ' })).toMatchObject({ status: 400, body: { message: { title: ["can't be blank"] } } });
    expect((await post({ description: 'x'.repeat(1_048_577) })).status).toBe(400);
    expect(await post({ milestone_id: 999_999_999 })).toMatchObject({ status: 400 });
    const fork = await owner.post(`${path}/merge_requests`, { ...feature, target_project_id: other.project.id });
    expect(fork).toMatchObject({
      status: 422,
      body: { message: ['Source project is not a fork of the target project'] },
    });
    expect((await post({ target_project_id: 999_999_999 })).status).toBe(404);
    await opened(owner, path);
    expect(await post({})).toMatchObject({
      status: 409,
      body: { message: ['Another open merge request already exists for this source branch: !1'] },
    });
    expect((await owner.get(`${path}/merge_requests`)).body).toHaveLength(1);
  });

  it('lets one of two concurrent requests win', async () => {
    const { owner, path } = await makeBranches();
    const answers = await Promise.all([1, 2, 3].map(() => owner.post(`${path}/merge_requests`, feature)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409]);
  });

  it('requires a Developer of the source', async () => {
    const { path, reporter, guest, stranger } = await makeBranches();
    expect((await reporter.post(`${path}/merge_requests`, feature)).status).toBe(403);
    expect((await guest.post(`${path}/merge_requests`, feature)).status).toBe(403);
    expect((await stranger.post(`${path}/merge_requests`, feature)).status).toBe(404);
    expect((await app().anonymous.post(`${path}/merge_requests`, feature)).status).toBe(401);
  });

  it('takes a branch without commits of its own, which cannot be merged', async () => {
    const { owner, path } = await makeBranches();
    await owner.post(`${path}/repository/branches`, { branch: 'same', ref: 'main' });
    await opened(owner, path, { source_branch: 'same' });
    await opened(owner, path, { source_branch: 'missing' });
    await opened(owner, path, { target_branch: 'missing' });
    await app().settle();
    for (const iid of [1, 2, 3]) {
      expect((await owner.get(`${path}/merge_requests/${iid}`)).body).toMatchObject({
        detailed_merge_status: 'commits_status',
        changes_count: '0',
        prepared_at: expect.any(String),
      });
    }
    await owner.post(`${path}/repository/branches`, { branch: 'missing', ref: 'main' });
    await app().settle();
    expect((await owner.get(`${path}/merge_requests/3`)).body).toMatchObject({
      detailed_merge_status: 'mergeable',
      changes_count: '1',
    });
  });

  it('proposes a branch of a fork to its source', async () => {
    const { project, path, people, owner } = await makeBranches({ visibility: 'public' });
    const contributor = app().as(people.stranger);
    const fork = await contributor.post(`${path}/fork`);
    expect(fork.status).toBe(201);
    await app().settle();
    const own = `/projects/${fork.body.id}`;
    const head = await commit(contributor, own, { branch: 'mine', path: 'mine.txt', start_branch: 'main' });
    const made = await opened(contributor, own, {
      source_branch: 'mine',
      target_project_id: project.id,
      labels: 'not for contributors',
      allow_collaboration: true,
    });
    expect(made).toMatchObject({
      project_id: project.id,
      source_project_id: fork.body.id,
      labels: [],
      allow_collaboration: true,
    });
    await app().settle();
    const at = `${path}/merge_requests/${made.iid}`;
    expect((await owner.get(at)).body).toMatchObject({ sha: head, detailed_merge_status: 'mergeable' });
    await owner.put(at, { title: 'Draft: Mine' });
    await owner.put(`${at}/merge`, { auto_merge: true });
    // The commits stay when the fork goes.
    await contributor.delete(own);
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({
      state: 'opened',
      source_project_id: null,
      merge_status: 'cannot_be_merged',
      has_conflicts: true,
      merge_when_pipeline_succeeds: false,
    });
    const { data } = await owner.graphql(
      `query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "${made.iid}") { conflicts mergeStatusEnum } } }`,
      { path: project.path_with_namespace },
    );
    expect(data.project.mergeRequest).toEqual({ conflicts: true, mergeStatusEnum: 'CANNOT_BE_MERGED' });
    await owner.put(at, { title: 'Mine' });
    expect((await owner.get(at)).body).toMatchObject({ detailed_merge_status: 'commits_status' });
    expect((await owner.get(`${at}/commits`)).body).toMatchObject([{ id: head }]);
    expect((await owner.get(`${path}/repository/commits/${head}`)).body).toMatchObject({ id: head });
  });
});

describe('changing a merge request', () => {
  it('changes every attribute', async () => {
    const { owner, path, people } = await makeBranches();
    await owner.post(`${path}/repository/branches`, { branch: 'release', ref: 'main' });
    const milestone = await owner.post(`${path}/milestones`, { title: 'm' });
    await opened(owner, path, { labels: 'old' });
    await app().settle();
    const put = (body: Record<string, unknown>) => owner.put(`${path}/merge_requests/1`, body);
    const changes: readonly (readonly [Record<string, unknown>, Record<string, unknown>])[] = [
      [{ title: 'Draft: More' }, { title: 'Draft: More', draft: true }],
      [{ description: 'Why' }, { description: 'Why' }],
      [{ add_labels: 'new' }, { labels: ['new', 'old'] }],
      [{ remove_labels: 'old' }, { labels: ['new'] }],
      [{ labels: '' }, { labels: [] }],
      [{ milestone_id: milestone.body.id }, { milestone: { id: milestone.body.id } }],
      [{ milestone_id: 0 }, { milestone: null }],
      [{ assignee_id: people.maintainer.id }, { assignee: { id: people.maintainer.id } }],
      [{ assignee_ids: [] }, { assignees: [] }],
      [{ reviewer_ids: [people.reporter.id] }, { reviewers: [{ id: people.reporter.id }] }],
      [{ reviewer_ids: [0] }, { reviewers: [] }],
      [{ discussion_locked: true }, { discussion_locked: true }],
      [{ squash: true }, { squash: true }],
      [{ remove_source_branch: true }, { force_remove_source_branch: true }],
      // Merge requests that come from no fork ignore them.
      [{ allow_maintainer_to_push: true }, { state: 'opened' }],
      [{ allow_collaboration: true }, { state: 'opened' }],
      [{ target_branch: 'release' }, { target_branch: 'release', detailed_merge_status: 'unchecked' }],
      [{ state_event: 'close' }, { state: 'closed', closed_by: { id: people.owner.id } }],
      [{ state_event: 'reopen' }, { state: 'opened', closed_at: null, closed_by: null }],
    ];
    for (const [sent, shown] of changes) expect(await put(sent)).toMatchObject({ status: 200, body: shown });
    expect(await put({})).toMatchObject({ status: 400 });
    expect(await put({ target_branch: 'feature' })).toMatchObject({ status: 422 });
  });

  it('lets authors below Developer change only their proposal', async () => {
    const { path, project, people, owner } = await makeBranches({ visibility: 'public' });
    const contributor = app().as(people.stranger);
    const fork = await contributor.post(`${path}/fork`);
    await app().settle();
    const own = `/projects/${fork.body.id}`;
    await commit(contributor, own, { branch: 'mine', path: 'mine.txt', start_branch: 'main' });
    const { iid } = await opened(contributor, own, { source_branch: 'mine', target_project_id: project.id });
    const at = `${path}/merge_requests/${iid}`;
    expect(await contributor.put(at, { title: 'Better', labels: 'mine', discussion_locked: true })).toMatchObject({
      status: 200,
      body: { title: 'Better', labels: [], discussion_locked: null },
    });
    expect((await app().as(people.guest).put(at, { title: 'No' })).status).toBe(403);
    expect((await owner.get(at)).body.title).toBe('Better');
    expect((await contributor.delete(at)).status).toBe(403);
  });

  it('refuses a second open one for the same branches', async () => {
    const { owner, path } = await makeBranches();
    await opened(owner, path);
    await owner.put(`${path}/merge_requests/1`, { state_event: 'close' });
    await opened(owner, path);
    expect(await owner.put(`${path}/merge_requests/1`, { state_event: 'reopen' })).toMatchObject({
      status: 409,
      body: { message: ['Another open merge request already exists for this source branch: !2'] },
    });
    await owner.delete(`${path}/repository/branches/feature`);
    await app().settle();
    expect((await owner.put(`${path}/merge_requests/1`, { state_event: 'reopen' })).status).toBe(400);
  });

  it('deletes it with its refs, for owners', async () => {
    const { owner, maintainer, path, project, head } = await makeBranches();
    await opened(owner, path);
    await app().settle();
    expect((await maintainer.delete(`${path}/merge_requests/1`)).status).toBe(403);
    expect((await owner.delete(`${path}/merge_requests/1`)).status).toBe(204);
    expect((await owner.get(`${path}/merge_requests/1`)).status).toBe(404);
    await app().settle();
    expect(await kinds(project.id)).toContain('merge_request.deleted');
    const repository = await diskPath(project.id);
    const { git } = app().hub.services;
    expect(await git.resolve(repository, 'refs/merge-requests/1/head')).toBeNull();
    expect(await git.resolve(repository, `refs/keep-around/${head}`)).toBe(head);
  });
});

describe('a merge request that changes while it is deleted or shown', () => {
  it('stays if it has changed since the time of If-Unmodified-Since', async () => {
    const { owner, path } = await makeBranches();
    const { updated_at } = await opened(owner, path);
    const one = `${path}/merge_requests/1`;
    const remove = (since: Date) =>
      owner.request('DELETE', one, undefined, { 'if-unmodified-since': since.toUTCString() });
    expect(await remove(new Date(Date.parse(updated_at) - 2_000))).toMatchObject({
      status: 412,
      body: { message: '412 Precondition Failed' },
    });
    await app().settle();
    expect((await owner.get(one)).body.state).toBe('opened');
    expect((await remove(new Date(updated_at))).status).toBe(204);
  });

  it('is shown with the status that the rest of its record has', async () => {
    const { owner, path, project, people } = await makeBranches();
    await opened(owner, path);
    const ctx = app().context(people.owner);
    const seen = await getProject(ctx, { id: project.id });
    const row = await getMergeRequest(ctx, seen, 1);
    await app().settle();
    const shown = { ...row, merge_status: 'preparing' as const, prepared_at: null };
    expect(await toMergeRequest(ctx, seen, shown, { firstContribution: false })).toMatchObject({
      detailed_merge_status: 'preparing',
      diff_refs: null,
      changes_count: null,
    });
    expect((await owner.get(`${path}/merge_requests/1`)).body).toMatchObject({ detailed_merge_status: 'mergeable' });
  });

  it('has no messages of a merge until the commit of a fork has arrived', async () => {
    const { owner, path, project, people } = await makeBranches();
    await opened(owner, path);
    await app().settle();
    const ctx = app().context(people.owner);
    const seen = await getProject(ctx, { id: project.id });
    const row = await getMergeRequest(ctx, seen, 1);
    expect(await defaultMessages(ctx, seen, row)).toMatchObject({ squash: 'Add a file' });
    expect(await defaultMessages(ctx, seen, { ...row, diff_head_sha: 'a'.repeat(40) })).toBeNull();
  });

  it('names labels in the refusal of a label', async () => {
    const { owner, path } = await makeBranches();
    expect(await owner.post(`${path}/merge_requests`, { ...feature, labels: 'None' })).toMatchObject({
      status: 400,
      body: { message: { labels: ['is invalid'] } },
    });
    // Clients send null for what they do not set.
    const sent = { ...feature, assignee_id: null, assignee_ids: null, reviewer_ids: null };
    expect(await owner.post(`${path}/merge_requests`, sent)).toMatchObject({ status: 201, body: { assignees: [] } });
  });
});

describe('pushes to the branches of a merge request', () => {
  it('make a version each, and keep the earlier ones', async () => {
    const { owner, path, project, head } = await makeBranches();
    await opened(owner, path);
    await app().settle();
    const next = await commit(owner, path, { branch: 'feature', path: 'second.txt' });
    await app().settle();
    const at = `${path}/merge_requests/1`;
    expect((await owner.get(at)).body).toMatchObject({ sha: next, changes_count: '2' });
    const versions = (await owner.get(`${at}/versions`)).body;
    expect(versions).toMatchObject([
      { head_commit_sha: next, state: 'collected', real_size: '2' },
      { head_commit_sha: head, real_size: '1' },
    ]);
    expect((await owner.get(`${at}/versions/${versions[1].id}`)).body).toMatchObject({
      commits: [{ id: head }],
      diffs: [{ new_path: 'new.txt' }],
    });
    expect((await owner.get(`${at}/versions/999999999`)).status).toBe(404);
    expect((await app().anonymous.get(`${at}/versions`)).status).toBe(404);
    const updated = (await events(project.id)).filter(({ kind }) => kind === 'merge_request.updated');
    expect(updated).toMatchObject([{ payload: { oldrev: head, merge_request: { diff_head_sha: next } } }]);
  });

  it('find conflicts with the target, and their end', async () => {
    const { owner, path } = await makeBranches();
    await opened(owner, path);
    await app().settle();
    await commit(owner, path, { branch: 'main', path: 'new.txt', content: 'other\n' });
    await app().settle();
    expect((await owner.get(`${path}/merge_requests/1`)).body).toMatchObject({
      merge_status: 'cannot_be_merged',
      detailed_merge_status: 'conflict',
      has_conflicts: true,
    });
    const answer = await owner.post(`${path}/repository/commits`, {
      branch: 'main',
      commit_message: 'Give way',
      actions: [{ action: 'delete', file_path: 'new.txt' }],
    });
    expect(answer.status).toBe(201);
    await app().settle();
    expect((await owner.get(`${path}/merge_requests/1`)).body.detailed_merge_status).toBe('mergeable');
  });

  it('mark it as merged when the target contains it', async () => {
    const { owner, path, project, head, people } = await makeBranches();
    await opened(owner, path);
    await owner.post(`${path}/repository/branches`, { branch: 'untouched', ref: 'main' });
    await opened(owner, path, { source_branch: 'untouched' });
    await app().settle();
    const repository = await diskPath(project.id);
    // A fast-forward of the target, as a push makes it.
    const ctx = app().context(people.owner);
    const oldOid = await app().hub.services.git.resolve(repository, 'refs/heads/main');
    await moveRefs(ctx, await getProject(ctx, { id: project.id }), [{ ref: 'refs/heads/main', oldOid, newOid: head }]);
    await app().settle();
    expect((await owner.get(`${path}/merge_requests/1`)).body).toMatchObject({
      state: 'merged',
      merged_at: expect.any(String),
      merge_user: { id: people.owner.id },
    });
    // A branch without commits of its own is contained in every branch, and stays open.
    expect((await owner.get(`${path}/merge_requests/2`)).body.state).toBe('opened');
    expect(await kinds(project.id)).toContain('merge_request.merged');
    expect(await owner.put(`${path}/merge_requests/1`, { state_event: 'close' })).toMatchObject({ status: 400 });
  });

  it('close it when the source branch is deleted', async () => {
    const { owner, path, project } = await makeBranches();
    await opened(owner, path);
    await app().settle();
    await owner.delete(`${path}/repository/branches/feature`);
    await app().settle();
    expect((await owner.get(`${path}/merge_requests/1`)).body).toMatchObject({ state: 'closed' });
    expect((await owner.get(`${path}/merge_requests/1/diffs`)).body).toHaveLength(1);
    expect(await kinds(project.id)).toContain('merge_request.closed');
  });
});

describe('hooks of merge requests', () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start();
    const admin = app().as(app().root);
    await admin.put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  });
  afterAll(() => receiver[Symbol.asyncDispose]());

  it('get each change with its action', async () => {
    const { owner, path, people } = await makeBranches();
    receiver.received.length = 0;
    const hook = { url: receiver.url, merge_requests_events: true, push_events: false };
    expect((await owner.post(`${path}/hooks`, hook)).status).toBe(201);
    await opened(owner, path);
    await app().settle();
    await owner.put(`${path}/merge_requests/1`, { title: 'New title', add_labels: 'x' });
    await owner.put(`${path}/merge_requests/1`, { state_event: 'close' });
    await owner.put(`${path}/merge_requests/1`, { state_event: 'reopen' });
    const bodies = () => receiver.received.map(({ body }) => body);
    await until('all four arrive', () => receiver.received.length === 4);
    const byAction = new Map(bodies().map((body) => [body.object_attributes.action, body]));
    expect([...byAction.keys()].sort()).toEqual(['close', 'open', 'reopen', 'update']);
    expect(byAction.get('open')).toMatchObject({
      object_kind: 'merge_request',
      user: { id: people.owner.id },
      object_attributes: { iid: 1, source_branch: 'feature', last_commit: { title: 'Change new.txt' } },
    });
    expect(byAction.get('update')).toMatchObject({
      user: { id: people.owner.id },
      labels: [{ title: 'x' }],
      changes: { title: { previous: 'Add a file', current: 'New title' }, labels: { previous: [] } },
    });
    expect(byAction.get('close')).toMatchObject({ changes: { state_id: { previous: 1, current: 2 } } });
  });

  it('name the person who pushed, or who deleted the source branch', async () => {
    const { owner, path, project, head } = await makeBranches();
    await opened(owner, path);
    await app().settle();
    const pusher = await app().make.user();
    await app().make.projectMember(project, pusher, 30);
    receiver.received.length = 0;
    await owner.post(`${path}/hooks`, { url: receiver.url, merge_requests_events: true, push_events: false });
    await commit(app().as(pusher), path, { branch: 'feature', path: 'more.txt' });
    await app().settle();
    await app().as(pusher).delete(`${path}/repository/branches/feature`);
    await app().settle();
    await until('both arrive', () => receiver.received.length === 2);
    const user = { id: pusher.id, username: pusher.username };
    expect(receiver.received.map(({ body }) => body)).toMatchObject([
      { user, object_attributes: { action: 'update', oldrev: head } },
      { user, object_attributes: { action: 'close', state: 'closed' } },
    ]);
    expect((await owner.get(`${path}/merge_requests/1`)).body).toMatchObject({ state: 'closed', closed_by: user });
    const [note] = (await owner.get(`${path}/merge_requests/1/notes`)).body;
    expect(note).toMatchObject({ body: 'closed', author: user });
  });

  it('get an event when all threads are resolved', async () => {
    const { owner, path, people } = await makeBranches();
    await opened(owner, path);
    await app().settle();
    const threads = `${path}/merge_requests/1/discussions`;
    const ids: string[] = [];
    for (const body of ['Why?', 'How?']) ids.push((await owner.post(threads, { body })).body.id);
    receiver.received.length = 0;
    await owner.post(`${path}/hooks`, { url: receiver.url, merge_requests_events: true, push_events: false });
    for (const id of ids) await owner.put(`${threads}/${id}`, { resolved: true });
    await app().settle();
    await until('it arrives', () => receiver.received.length > 0);
    expect(receiver.received.map(({ body }) => body)).toMatchObject([
      { user: { id: people.owner.id }, object_attributes: { iid: 1, action: 'update' }, changes: {} },
    ]);
  });
});

describe('merge requests over GraphQL', () => {
  const mutate = async (client: Client, name: string, input: Record<string, unknown>) => {
    const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
    const fields = `iid title state draft targetBranch discussionLocked mergeAfter timeEstimate milestone { title }
      labels { nodes { title } } assignees { nodes { username } } reviewers { nodes { username } }`;
    const query = `mutation ($input: ${type}!) { ${name}(input: $input) { mergeRequest { ${fields} } errors } }`;
    const { data, errors } = await client.graphql(query, { input });
    return errors ? { errors } : data[name];
  };

  it('are opened and changed by the same rules', async () => {
    const { owner, guest, path, project, people } = await makeBranches();
    const projectPath = project.path_with_namespace;
    await owner.post(`${path}/repository/branches`, { branch: 'release', ref: 'main' });
    const milestone = await owner.post(`${path}/milestones`, { title: 'm' });
    const label = await owner.post(`${path}/labels`, { name: 'bug', color: '#ff0000' });
    const create = { projectPath, title: 'Over GraphQL', sourceBranch: 'feature', targetBranch: 'main' };
    expect((await mutate(guest, 'mergeRequestCreate', create)).errors).toHaveLength(1);
    expect(
      await mutate(owner, 'mergeRequestCreate', {
        ...create,
        description: 'Why',
        labels: ['new'],
        removeSourceBranch: true,
        targetProjectId: `gid://gitlab/Project/${project.id}`,
      }),
    ).toMatchObject({ errors: [], mergeRequest: { iid: '1', labels: { nodes: [{ title: 'new' }] } } });
    const one = { projectPath, iid: '1' };
    const labelIds = [`gid://gitlab/ProjectLabel/${label.body.id}`];
    const { username } = people.maintainer;
    const changes: readonly (readonly [string, Record<string, unknown>, Record<string, unknown>])[] = [
      [
        'mergeRequestUpdate',
        { title: 'Better', description: 'x', targetBranch: 'release' },
        { targetBranch: 'release' },
      ],
      [
        'mergeRequestUpdate',
        { mergeAfter: '2030-01-01T00:00:00Z', timeEstimate: '1h 30m' },
        { mergeAfter: '2030-01-01T00:00:00.000Z', timeEstimate: 5_400 },
      ],
      ['mergeRequestUpdate', { mergeAfter: null, timeEstimate: '0' }, { mergeAfter: null, timeEstimate: 0 }],
      ['mergeRequestUpdate', { state: 'CLOSED' }, { state: 'closed' }],
      ['mergeRequestUpdate', { state: 'OPEN' }, { state: 'opened' }],
      ['mergeRequestSetDraft', { draft: true }, { title: 'Draft: Better', draft: true }],
      ['mergeRequestSetDraft', { draft: false }, { title: 'Better', draft: false }],
      ['mergeRequestSetLocked', { locked: true }, { discussionLocked: true }],
      [
        'mergeRequestSetMilestone',
        { milestoneId: `gid://gitlab/Milestone/${milestone.body.id}` },
        { milestone: { title: 'm' } },
      ],
      ['mergeRequestSetMilestone', {}, { milestone: null }],
      ['mergeRequestSetLabels', { labelIds }, { labels: { nodes: [{ title: 'bug' }] } }],
      ['mergeRequestSetLabels', { labelIds, operationMode: 'REMOVE' }, { labels: { nodes: [] } }],
      ['mergeRequestSetLabels', { labelIds, operationMode: 'APPEND' }, { labels: { nodes: [{ title: 'bug' }] } }],
      ['mergeRequestSetAssignees', { assigneeUsernames: [username] }, { assignees: { nodes: [{ username }] } }],
      [
        'mergeRequestSetAssignees',
        { assigneeUsernames: [username], operationMode: 'REMOVE' },
        { assignees: { nodes: [] } },
      ],
      ['mergeRequestSetReviewers', { reviewerUsernames: [username] }, { reviewers: { nodes: [{ username }] } }],
      [
        'mergeRequestSetReviewers',
        { reviewerUsernames: [people.reporter.username], operationMode: 'APPEND' },
        { reviewers: { nodes: expect.arrayContaining([{ username }]) } },
      ],
    ];
    for (const [name, input, mergeRequest] of changes) {
      expect(await mutate(owner, name, { ...one, ...input })).toMatchObject({ errors: [], mergeRequest });
    }
    expect(
      await mutate(owner, 'mergeRequestSetAssignees', { ...one, assigneeUsernames: ['nobody-of-that-name'] }),
    ).toEqual({
      mergeRequest: null,
      errors: ['Assignee usernames nobody-of-that-name cannot be assigned'],
    });
    expect((await mutate(guest, 'mergeRequestSetDraft', { ...one, draft: true })).errors).toHaveLength(1);
    expect((await mutate(owner, 'mergeRequestSetDraft', { ...one, iid: 'x', draft: true })).errors).toHaveLength(1);
  });
});
