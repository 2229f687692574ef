import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { followPushes } from '#domains/ci/creation/pushes.ts';
import { autoMerge } from '#domains/merge-requests/merging/follow-auto-merges.ts';
import { refreshNow } from '#domains/merge-requests/versions/refresh.ts';
import { repositoryUpdated } from '#domains/repositories/events.ts';
import { readEvents } from '#platform/event-log/read.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { pushCommits, README } from '../support/commits.ts';

// Without a worker, no job creates the pipeline first.
const app = useApp({ env: { MILLRACE_ROLE: 'web' } });

const FILE = 'check: {script: [x], rules: [{if: $CI_PIPELINE_SOURCE == "merge_request_event"}]}\n';
/** Without rules, jobs run in the pipelines of pushes only. */
const FILE_FOR_PUSHES = 'check: {script: [x]}\n';

const open = async (file = FILE, title = 'Add a file') => {
  const { path, project, people, owner } = await makeScene(app());
  const [, head] = await pushCommits(app(), project, people.owner, [
    { branch: 'main', files: { '.gitlab-ci.yml': file } },
    { branch: 'feature', from: 'main', files: { 'new.txt': 'text\n' } },
  ]);
  const made = await owner.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title,
  });
  expect(made.status).toBe(201);
  return { owner, at: `${path}/merge_requests/1`, id: made.body.id as number, project, head };
};

it('waits for the pipeline that a merge request is about to get', async () => {
  const { owner, at } = await open();
  expect(await owner.put(`${at}/merge`, { auto_merge: true })).toMatchObject({
    status: 200,
    body: { state: 'opened', merge_when_pipeline_succeeds: true, head_pipeline: { source: 'merge_request_event' } },
  });
  // Asking again creates no second one.
  await owner.put(`${at}/merge`, { auto_merge: true });
  expect((await owner.get(`${at}/pipelines`)).body).toHaveLength(1);
});

it('does not merge before that pipeline with /merge', async () => {
  const { owner, at } = await open();
  expect((await owner.post(`${at}/notes`, { body: '/merge' })).status).toBe(202);
  expect((await owner.get(at)).body).toMatchObject({ state: 'opened', merge_when_pipeline_succeeds: true });
});

describe('auto-merge right after a push', () => {
  it('waits for the pipeline that the follower has not seen yet', async () => {
    const { owner, at } = await open(FILE_FOR_PUSHES);
    expect(await owner.put(`${at}/merge`, { auto_merge: true })).toMatchObject({
      status: 200,
      body: { state: 'opened', merge_when_pipeline_succeeds: true, head_pipeline: { source: 'push' } },
    });
    await owner.put(`${at}/merge`, { auto_merge: true });
    expect((await owner.get(`${at}/pipelines`)).body).toHaveLength(1);
  });

  it('waits for the pipeline that a job is about to create', async () => {
    const { owner, at, project, head } = await open(FILE_FOR_PUSHES);
    await app()
      .context()
      .transaction(async (tx) => {
        await sql`select sequence_events()`.execute(tx.db);
        const range = { after: -1, until: Number.MAX_SAFE_INTEGER, limit: 10 };
        const kinds = new Set([repositoryUpdated.kind]);
        await followPushes.handle(tx, await readEvents(tx.db, range, { kinds, project_id: project.id }));
        await sql`
        insert into event_cursors (name, position) select ${followPushes.name}, max(position) from events
        on conflict (name) do update set position = excluded.position`.execute(tx.db);
      });
    const { data, errors } = await owner.graphql(
      `mutation ($input: MergeRequestAcceptInput!) { mergeRequestAccept(input: $input) { errors mergeRequest {
        state autoMergeEnabled headPipeline { iid } } } }`,
      {
        input: {
          projectPath: project.path_with_namespace,
          iid: '1',
          sha: head,
          strategy: 'MERGE_WHEN_CHECKS_PASS',
        },
      },
    );
    expect(errors).toBeUndefined();
    expect(data.mergeRequestAccept).toEqual({
      errors: [],
      mergeRequest: { state: 'opened', autoMergeEnabled: true, headPipeline: { iid: '1' } },
    });
    expect((await owner.get(`${at}/pipelines`)).body).toMatchObject([{ source: 'push' }]);
  });

  it('does not merge before it when another obstacle goes first', async () => {
    const { owner, at, id } = await open(FILE_FOR_PUSHES, 'Draft: Add a file');
    expect((await owner.put(`${at}/merge`, { auto_merge: true })).body).toMatchObject({ head_pipeline: null });
    await owner.put(at, { title: 'Add a file' });
    await autoMerge.run(app().context(), { id }, { attempt: 1, lastAttempt: false });
    expect((await owner.get(at)).body).toMatchObject({
      state: 'opened',
      merge_when_pipeline_succeeds: true,
      head_pipeline: { source: 'push' },
    });
  });
});

it('gets a pipeline on request before it is prepared', async () => {
  const { owner, at } = await open();
  expect(await owner.post(`${at}/pipelines`)).toMatchObject({
    status: 200,
    body: { source: 'merge_request_event', status: 'pending' },
  });
});

it('names the person who pushed, even if another refresh finds the push', async () => {
  const { path, project, people, owner } = await makeScene(app());
  await pushCommits(app(), project, people.owner, [
    README,
    { branch: 'feature', from: 'main', files: { 'new.txt': 'text\n' } },
  ]);
  const made = await owner.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Add a file',
  });
  await refreshNow(app().context(), made.body.id);
  await pushCommits(app(), project, people.maintainer, [
    { branch: 'feature', from: 'feature', files: { 'more.txt': 'text\n' } },
  ]);
  await refreshNow(app().context(), made.body.id);
  const { body: notes } = await owner.get(`${path}/merge_requests/1/notes`);
  expect(notes).toMatchObject([{ system: true, author: { id: people.maintainer.id } }]);
  expect(notes[0].body).toContain('added 1 commit');
});
