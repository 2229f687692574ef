import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { pipelineScene } from '../ci/pipeline-scene.ts';
import { useApp } from '../support/app.ts';
import { untilBlocked } from '../support/locks.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner } from '../support/runner/queue.ts';

const app = useApp();

const FILE = `
check: {script: [x], rules: [{if: $CI_PIPELINE_SOURCE == "merge_request_event"}]}
`;

const opened = async (file = FILE) => {
  const scene = await pipelineScene(app(), file);
  await scene.client.post(`${scene.path}/repository/branches`, { branch: 'feature', ref: 'main' });
  const head = await scene.change({ branch: 'feature' });
  const { body } = await scene.client.post(`${scene.path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Feature',
  });
  await app().settle();
  const path = `${scene.path}/merge_requests/${body.iid}`;
  const list = async () => (await scene.client.get(`${path}/pipelines`)).body;
  return { scene, head, iid: body.iid, path, list };
};

describe('a merge request', () => {
  it('gets a pipeline when it is opened and with each push, which decides whether it can be merged', async () => {
    const { scene, head, iid, path, list } = await opened();
    const [first] = await list();
    expect(first).toMatchObject({
      sha: head,
      ref: `refs/merge-requests/${iid}/head`,
      source: 'merge_request_event',
      status: 'pending',
    });
    await scene.client.put(scene.path, { only_allow_merge_if_pipeline_succeeds: true });
    const status = async () => (await scene.client.get(path)).body.detailed_merge_status;
    expect(await status()).toBe('ci_still_running');
    const next = await scene.change({ branch: 'feature' });
    const [second, ...older] = await list();
    expect(second).toMatchObject({ sha: next, status: 'pending' });
    expect(older).toHaveLength(1);
    // The push made the first one redundant.
    expect(await scene.statusOf(first.id)).toBe('canceled');
    await scene.finish(second.id, 'check', 'failed');
    expect(await status()).toBe('ci_must_pass');
    await scene.client.post(`${scene.path}/pipelines/${second.id}/retry`);
    await scene.client.put(`${path}/merge`, { auto_merge: true });
    await scene.finish(second.id, 'check');
    expect((await scene.client.get(path)).body.state).toBe('merged');
  });

  it('gets another pipeline on request, and none without jobs for it or without commits', async () => {
    const { scene, path, list } = await opened();
    const again = await scene.client.post(`${path}/pipelines`);
    expect([again.status, again.body.source]).toEqual([200, 'merge_request_event']);
    expect(await list()).toHaveLength(2);
    const reporter = await app().make.user();
    await app().make.projectMember(scene.project, reporter, 20);
    const refused = await app().as(reporter).post(`${path}/pipelines`);
    expect([refused.status, refused.body.message.base]).toEqual([
      400,
      ['Insufficient permissions to create a new pipeline'],
    ]);
    expect(
      (
        await app()
          .as(await app().make.user())
          .post(`${path}/pipelines`)
      ).status,
    ).toBe(404);
    await scene.client.put(path, { state_event: 'close' });
    expect((await scene.client.post(`${path}/pipelines`)).status).toBe(405);
    const without = await opened('a: {script: [x]}');
    expect((await without.list()).map(({ source }: { source: string }) => source)).toEqual(['push']);
    const none = await without.scene.client.post(`${without.path}/pipelines`);
    expect([none.status, none.body.message.base[0]]).toEqual([400, expect.stringContaining('Pipeline will not run')]);
  });

  it('from a fork gets its pipeline in the fork, and in the target if a member of the target asks for it', async () => {
    const { scene } = await opened();
    const author = await app().make.user();
    await scene.client.put(scene.path, { visibility: 'public' });
    const client = app().as(author);
    const fork = (await client.post(`${scene.path}/fork`)).body;
    await app().settle();
    const actions = [{ action: 'create', file_path: 'theirs', content: 'x' }];
    await client.post(`/projects/${fork.id}/repository/commits`, {
      branch: 'theirs',
      start_branch: 'main',
      commit_message: 'Theirs',
      actions,
    });
    const { body } = await client.post(`/projects/${fork.id}/merge_requests`, {
      source_branch: 'theirs',
      target_branch: 'main',
      target_project_id: scene.project.id,
      title: 'Theirs',
    });
    await app().settle();
    const ref = `refs/merge-requests/${body.iid}/head`;
    const inFork = async () => (await client.get(`/projects/${fork.id}/pipelines?source=merge_request_event`)).body;
    expect(await inFork()).toEqual([expect.objectContaining({ ref, project_id: fork.id, status: 'pending' })]);
    const path = `${scene.path}/merge_requests/${body.iid}/pipelines`;
    expect((await scene.client.get(path)).body).toEqual([]);
    expect((await scene.client.post(path)).body).toMatchObject({ ref, project_id: scene.project.id });
    await scene.client.put(scene.path, { ci_allow_fork_pipelines_to_run_in_parent_project: false });
    // The owner of the target may not run pipelines in the fork.
    expect((await scene.client.post(path)).status).toBe(400);
    expect((await scene.client.get(path)).body).toHaveLength(1);
  });

  it('with merge_pipelines_enabled runs on the merged result, or on its head while the branches conflict', async () => {
    const { scene, head, iid, path, list } = await opened();
    const { client } = scene;
    expect((await client.put(scene.path, { merge_pipelines_enabled: true })).body.merge_pipelines_enabled).toBe(true);
    const start = await scene.change({ branch: 'main' });
    const { body: merged } = await client.post(`${path}/pipelines`);
    expect(merged).toMatchObject({ ref: `refs/merge-requests/${iid}/merge`, source: 'merge_request_event' });
    const commit = await client.get(`${scene.path}/repository/commits/${merged.sha}`);
    expect(commit.body.parent_ids).toEqual([start, head]);
    const { body: seen } = await client.get(path);
    expect(seen.head_pipeline.id).toBe(merged.id);
    await client.put(scene.path, { only_allow_merge_if_pipeline_succeeds: true });
    await scene.finish(merged.id, 'check');
    expect((await client.get(path)).body.detailed_merge_status).toBe('mergeable');
    // A push runs on the merged result too.
    const next = await scene.commit({ both: 'theirs' }, { branch: 'feature' });
    const [pushed] = await list();
    expect(pushed).toMatchObject({ ref: `refs/merge-requests/${iid}/merge`, status: 'pending' });
    expect(pushed.sha).not.toBe(next);
    await scene.commit({ both: 'ours' }, { branch: 'main' });
    const detached = await client.post(`${path}/pipelines`);
    expect(detached.body).toMatchObject({ ref: `refs/merge-requests/${iid}/head`, sha: next });
  });

  it('gives rules the kind of its pipeline, its changes, and the merge requests of a branch', async () => {
    const { scene, iid, path, list } = await opened(`
merged: {script: [x], rules: [{if: $CI_MERGE_REQUEST_EVENT_TYPE == "merged_result" && $CI_MERGE_REQUEST_TARGET_BRANCH_SHA, changes: [change-1]}]}
theirs: {script: [x], rules: [{if: $CI_MERGE_REQUEST_EVENT_TYPE == "merged_result", changes: [change-2]}]}
detached: {script: [x], rules: [{if: $CI_MERGE_REQUEST_EVENT_TYPE == "detached" && $CI_MERGE_REQUEST_SOURCE_BRANCH_SHA == ""}]}
branch: {script: [x], rules: [{if: $CI_COMMIT_BRANCH && $CI_OPEN_MERGE_REQUESTS == null}]}
`);
    const [first] = await list();
    expect(await scene.shown(first.id)).toBe('detached pending');
    const before = (await scene.pipelines()).length;
    await scene.client.put(scene.path, { merge_pipelines_enabled: true });
    // EncodedJson to main after the merge request was opened, so the merge request does not change it.
    await scene.change({ branch: 'main' });
    const { body } = await scene.client.post(`${path}/pipelines`);
    expect(await scene.shown(body.id)).toBe('merged pending');
    const created = await scene.client.post(`${scene.path}/pipeline`, { ref: 'feature' });
    expect([created.status, created.body.message.base[0]]).toEqual([400, expect.stringContaining('will not run')]);
    expect((await scene.pipelines()).length).toBe(before + 2);
    expect(iid).toBe(1);
  });

  it('has variables about the merge request', async () => {
    const { scene, iid, path } = await opened();
    const milestone = await scene.client.post(`${scene.path}/milestones`, { title: 'First' });
    const changes = { description: 'x'.repeat(3_000), labels: 'one,two', squash: true };
    const people = { milestone_id: milestone.body.id, assignee_ids: [scene.owner.id] };
    expect((await scene.client.put(path, { ...changes, ...people })).status).toBe(200);
    const runner = await makeRunner(app(), { runner_type: 'project_type', project_id: scene.project.id });
    const job = await new Protocol({ url: app().url, token: runner.token }).request();
    const variables = new Map(job?.variables.map(({ key, value }) => [key, value]));
    const given = Object.fromEntries([...variables].filter(([key]) => key.startsWith('CI_MERGE_REQUEST_')));
    const { path_with_namespace: fullPath, id } = scene.project;
    const url = `${app().url}/${fullPath}`;
    expect(given).toEqual({
      CI_MERGE_REQUEST_ID: expect.stringMatching(/^\d+$/),
      CI_MERGE_REQUEST_IID: String(iid),
      CI_MERGE_REQUEST_PROJECT_ID: String(id),
      CI_MERGE_REQUEST_PROJECT_PATH: fullPath,
      CI_MERGE_REQUEST_PROJECT_URL: url,
      CI_MERGE_REQUEST_REF_PATH: `refs/merge-requests/${iid}/head`,
      CI_MERGE_REQUEST_SOURCE_PROJECT_ID: String(id),
      CI_MERGE_REQUEST_SOURCE_PROJECT_PATH: fullPath,
      CI_MERGE_REQUEST_SOURCE_PROJECT_URL: url,
      CI_MERGE_REQUEST_SOURCE_BRANCH_NAME: 'feature',
      CI_MERGE_REQUEST_SOURCE_BRANCH_SHA: '',
      CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'main',
      CI_MERGE_REQUEST_TARGET_BRANCH_SHA: '',
      CI_MERGE_REQUEST_DIFF_ID: expect.stringMatching(/^\d+$/),
      CI_MERGE_REQUEST_DIFF_BASE_SHA: scene.sha,
      CI_MERGE_REQUEST_EVENT_TYPE: 'detached',
      CI_MERGE_REQUEST_TITLE: 'Feature',
      CI_MERGE_REQUEST_DESCRIPTION: 'x'.repeat(2_700),
      CI_MERGE_REQUEST_DESCRIPTION_IS_TRUNCATED: 'true',
      CI_MERGE_REQUEST_DRAFT: 'false',
      CI_MERGE_REQUEST_SQUASH_ON_MERGE: 'true',
      CI_MERGE_REQUEST_MILESTONE: 'First',
      CI_MERGE_REQUEST_ASSIGNEES: scene.owner.username,
      CI_MERGE_REQUEST_LABELS: 'one,two',
    });
  });

  it('gets the pipeline of a new target branch after the version against it is stored', async () => {
    const scene = await pipelineScene(
      app(),
      `${FILE}
others: {script: [x], rules: [{if: $CI_PIPELINE_SOURCE == "merge_request_event", changes: [change-1]}]}
`,
    );
    await scene.client.post(`${scene.path}/repository/branches`, { branch: 'older', ref: 'main' });
    await scene.change({ branch: 'main' });
    await scene.client.post(`${scene.path}/repository/branches`, { branch: 'feature', ref: 'main' });
    await scene.change({ branch: 'feature' });
    const { body } = await scene.client.post(`${scene.path}/merge_requests`, {
      ...{ source_branch: 'feature', target_branch: 'main', title: 'Feature' },
    });
    await app().settle();
    const path = `${scene.path}/merge_requests/${body.iid}`;
    const list = async () => (await scene.client.get(`${path}/pipelines`)).body;
    expect(await scene.shown((await list())[0].id)).toBe('check pending');
    const { db } = app().hub.services;
    await db.transaction().execute(async (trx) => {
      await sql`select from merge_request_diffs where merge_request_id = ${body.id} for update`.execute(trx);
      await scene.client.put(path, { target_branch: 'older' });
      await untilBlocked(app());
    });
    await app().settle();
    const [pipeline, ...others] = await list();
    expect([await scene.shown(pipeline.id), others.length]).toEqual(['check pending, others pending', 1]);
  });

  it('gets another pipeline when people change its target branch, and later on request', async () => {
    const { scene, path, list } = await opened(`${FILE}
each: {script: [x], rules: [{if: $CI_PIPELINE_SOURCE == "api"}]}
`);
    await scene.client.post(`${scene.path}/repository/branches`, { branch: 'other', ref: 'main' });
    await scene.client.put(path, { target_branch: 'other' });
    await app().settle();
    expect(await list()).toHaveLength(2);
    const reporter = await app().make.user();
    await app().make.projectMember(scene.project, reporter, 20);
    expect((await app().as(reporter).post(`${path}/pipelines`, { async: true })).status).toBe(400);
    const later = await scene.client.post(`${path}/pipelines`, { async: true });
    expect([later.status, later.body]).toEqual([202, '']);
    await app().settle();
    const found = await list();
    expect(found).toHaveLength(3);
    // The branch pipeline is newer, and follows those of the merge request.
    const { body: newest } = await scene.client.post(`${scene.path}/pipeline`, { ref: 'feature' });
    const all = await list();
    expect(all.map(({ id }: { id: number }) => id)).toEqual([...found.map(({ id }: { id: number }) => id), newest.id]);
    expect((await scene.client.get(path)).body.head_pipeline.id).toBe(found[0].id);
    await scene.client.put(path, { state_event: 'close' });
    expect((await scene.client.post(`${path}/pipelines`, { async: true })).status).toBe(405);
  });
});
