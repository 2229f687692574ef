import { describe, expect, it } from 'vitest';
import { autoMerge, sweepAutoMerges } from '#domains/merge-requests/merging/follow-auto-merges.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { commit, makeMergeRequest, tipOf } from './merge-scene.ts';

const app = useApp();

const report = async (client: Client, path: string, sha: string, state: string) => {
  const { status } = await client.post(`${path}/statuses/${sha}`, { state, ref: 'feature' });
  expect(status).toBe(201);
  await app().settle();
};

const notesOf = async (client: Client, at: string): Promise<string[]> =>
  (await client.get(`${at}/notes?sort=asc`)).body.map(({ body }: { body: string }) => body);

const eventsOf = (project_id: number, kind: string) =>
  app()
    .hub.services.db.selectFrom('events')
    .select(['id', 'actor_id'])
    .where('project_id', '=', project_id)
    .where('kind', '=', kind)
    .execute();

describe('auto-merge', () => {
  it('merges when the pipeline of the head succeeds, as the person who asked for it', async () => {
    const { owner, maintainer, people, path, at, head, project } = await makeMergeRequest(app());
    await report(owner, path, head, 'running');
    const asked = await maintainer.put(`${at}/merge`, {
      auto_merge: true,
      sha: head,
      should_remove_source_branch: true,
      merge_commit_message: 'Merged by itself',
      squash: true,
      squash_commit_message: 'As one',
    });
    expect(asked).toMatchObject({
      status: 200,
      body: {
        state: 'opened',
        merge_when_pipeline_succeeds: true,
        merge_user: { id: people.maintainer.id },
        merged_by: null,
        detailed_merge_status: 'ci_still_running',
        should_remove_source_branch: true,
        squash: true,
      },
    });
    await report(owner, path, head, 'success');
    expect((await owner.get(at)).body).toMatchObject({ state: 'merged', merge_user: { id: people.maintainer.id } });
    const tip = await tipOf(owner, path, 'main');
    const { body: merged } = await owner.get(`${path}/repository/commits/${tip}`);
    expect(merged.message).toBe('Merged by itself');
    const { body: squashed } = await owner.get(`${path}/repository/commits/${merged.parent_ids[1]}`);
    expect(squashed.message).toBe('As one');
    expect((await owner.get(`${path}/repository/branches/feature`)).status).toBe(404);
    expect(await eventsOf(project.id, 'merge_request.merged')).toEqual([
      { id: expect.any(Number), actor_id: people.maintainer.id },
    ]);
    expect(await notesOf(owner, at)).toContain(`enabled an automatic merge when all merge checks for ${head} pass`);
  });

  it('keeps the options that are not given when it is set again, until it is cancelled', async () => {
    const { owner, maintainer, people, path, at, head } = await makeMergeRequest(app());
    await report(owner, path, head, 'running');
    const options = { should_remove_source_branch: true, squash: true, squash_commit_message: 'As one' };
    await maintainer.put(`${at}/merge`, { auto_merge: true, ...options, merge_commit_message: 'Cancelled' });
    await maintainer.post(`${at}/cancel_merge_when_pipeline_succeeds`);
    await maintainer.put(`${at}/merge`, { auto_merge: true, ...options });
    const { body } = await owner.put(`${at}/merge`, { auto_merge: true, squash_commit_message: 'Squashed' });
    expect(body).toMatchObject({ should_remove_source_branch: true, merge_user: { id: people.owner.id } });
    await report(owner, path, head, 'success');
    const [merged, squashed] = (await owner.get(`${path}/repository/commits?ref_name=main`)).body;
    expect([merged.title, squashed.message]).toEqual(["Merge branch 'feature' into 'main'", 'Squashed']);
    expect((await owner.get(`${path}/repository/branches/feature`)).status).toBe(404);
  });

  it('does not merge after a pipeline that failed, but after one that succeeds later', async () => {
    const { owner, path, at, head } = await makeMergeRequest(app());
    await report(owner, path, head, 'running');
    await owner.put(`${at}/merge`, { merge_when_pipeline_succeeds: true });
    await report(owner, path, head, 'failed');
    expect((await owner.get(at)).body).toMatchObject({ state: 'opened', detailed_merge_status: 'ci_must_pass' });
    await report(owner, path, head, 'success');
    expect((await owner.get(at)).body.state).toBe('merged');
  });

  it('waits while the merge request is a draft', async () => {
    const { owner, at } = await makeMergeRequest(app());
    await owner.put(at, { title: 'Draft: Later' });
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    const neither = { auto_merge: false, merge_when_pipeline_succeeds: false };
    expect((await owner.put(`${at}/merge`, neither)).status).toBe(405);
    const old = { auto_merge: false, merge_when_pipeline_succeeds: true };
    expect(await owner.put(`${at}/merge`, old)).toMatchObject({
      status: 200,
      body: { state: 'opened', detailed_merge_status: 'draft_status' },
    });
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('opened');
    await owner.put(at, { title: 'Now' });
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('merged');
  });

  it('waits until all discussions are resolved', async () => {
    const { owner, at, id, project } = await makeMergeRequest(app(), {
      only_allow_merge_if_all_discussions_are_resolved: true,
    });
    const { db } = app().hub.services;
    await db
      .insertInto('notes')
      .values({
        project_id: project.id,
        noteable_type: 'MergeRequest',
        merge_request_id: id,
        note: 'Why so?',
        type: 'DiscussionNote',
        discussion_id: 'd'.repeat(40),
      })
      .execute();
    expect((await owner.get(at)).body).toMatchObject({
      detailed_merge_status: 'discussions_not_resolved',
      blocking_discussions_resolved: false,
    });
    await owner.put(`${at}/merge`, { auto_merge: true });
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('opened');
    const resolved_at = new Date().toISOString();
    await db.updateTable('notes').set({ resolved_at }).where('merge_request_id', '=', id).execute();
    await owner.post(`${at}/notes`, { body: 'Because.' });
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('merged');
  });

  it('waits until the given time', async () => {
    const { owner, at, id } = await makeMergeRequest(app());
    const later = '2099-01-02T03:04:05.000Z';
    expect((await owner.put(at, { merge_after: later })).body).toMatchObject({
      merge_after: later,
      detailed_merge_status: 'merge_time',
    });
    expect((await owner.put(`${at}/merge`)).status).toBe(405);
    await owner.put(`${at}/merge`, { auto_merge: true });
    await app().settle();
    const { db } = app().hub.services;
    const waiting = () =>
      db
        .withTables<{ 'graphile_worker.jobs': { key: string | null; run_at: Date | string } }>()
        .selectFrom('graphile_worker.jobs')
        .select('run_at')
        .where('key', '=', `merge_requests.auto_merge:${id}`)
        .execute();
    const [job] = await waiting();
    expect(new Date(String(job?.run_at)).toISOString()).toBe(later);
    // A job that starts early, because the clock of the database is ahead, waits again.
    await app()
      .context()
      .transaction(async (tx) => tx.enqueue(autoMerge, { id }, { key: `merge_requests.auto_merge:${id}` }));
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('opened');
    const [again] = await waiting();
    expect(new Date(String(again?.run_at)).toISOString()).toBe(later);
    await owner.put(at, { merge_after: null });
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({ state: 'merged', merge_after: null });
  });

  it('can be given a time when the merge request is opened', async () => {
    const { owner, path } = await makeMergeRequest(app());
    await owner.post(`${path}/repository/branches`, { branch: 'other', ref: 'feature' });
    const { body } = await owner.post(`${path}/merge_requests`, {
      source_branch: 'other',
      target_branch: 'main',
      title: 'Another',
      merge_after: '2099-01-02T03:04:05Z',
    });
    expect(body.merge_after).toBe('2099-01-02T03:04:05.000Z');
    const refused = await owner.put(`${path}/merge_requests/2`, { merge_after: 'tomorrow' });
    expect(refused.status).toBe(400);
  });

  it('is not for a merge request that has nothing to wait for, or conflicts', async () => {
    const { owner, path, at, head } = await makeMergeRequest(app());
    expect((await owner.put(`${at}/merge`, { auto_merge: true })).status).toBe(405);
    await owner.put(at, { title: 'Draft: Later' });
    expect(await owner.put(`${at}/merge`, { auto_merge: true, sha: '0'.repeat(40) })).toMatchObject({
      status: 409,
      body: { message: `SHA does not match HEAD of source branch: ${head}` },
    });
    await owner.put(at, { title: 'Ready' });
    await commit(owner, path, 'main', 'one.txt', 'something else\n');
    expect((await owner.put(`${at}/merge`, { auto_merge: true })).status).toBe(405);
    await report(owner, path, head, 'success');
    expect((await owner.put(`${at}/merge`, { auto_merge: true })).status).toBe(422);
    expect((await owner.get(at)).body.merge_when_pipeline_succeeds).toBe(false);
  });

  it('ends with a push, a new target branch, and the closing of the merge request', async () => {
    const { owner, path, at } = await makeMergeRequest(app());
    await owner.post(`${path}/repository/branches`, { branch: 'stable', ref: 'main' });
    await owner.put(at, { title: 'Draft: Later' });
    const ends = async (end: () => Promise<unknown>, reason: string) => {
      await owner.put(`${at}/merge`, { auto_merge: true });
      expect((await owner.get(at)).body.merge_when_pipeline_succeeds).toBe(true);
      await end();
      await app().settle();
      expect((await owner.get(at)).body).toMatchObject({ merge_when_pipeline_succeeds: false, merge_user: null });
      expect(await notesOf(owner, at)).toContain(`aborted the automatic merge because ${reason}`);
    };
    await ends(() => commit(owner, path, 'feature', 'three.txt'), 'the source branch was updated');
    await ends(() => owner.put(at, { target_branch: 'stable' }), 'the target branch was changed');
    await app().settle();
    await ends(() => owner.put(at, { state_event: 'close' }), 'the merge request was closed');
    const { body: notes } = await owner.get(`${at}/notes`);
    expect(notes.filter(({ author }: { author: unknown }) => author === null)).toEqual([]);
  });

  it('ends in a project that only fast-forwards when the target branch moves on', async () => {
    const { owner, people, path, at } = await makeMergeRequest(app(), { merge_method: 'ff' }, { moves: false });
    await owner.put(at, { title: 'Draft: Later' });
    expect((await owner.put(`${at}/merge`, { auto_merge: true })).status).toBe(200);
    await commit(owner, path, 'main', 'other.txt');
    await app().settle();
    expect((await owner.get(at)).body.merge_when_pipeline_succeeds).toBe(false);
    expect((await owner.get(`${at}/notes`)).body[0]).toMatchObject({
      body: 'aborted the automatic merge because the target branch was updated',
      author: { id: people.owner.id },
    });
    await owner.put(at, { title: 'Ready' });
    expect((await owner.get(at)).body.detailed_merge_status).toBe('need_rebase');
  });

  it('ends if the person who asked for it may not merge any more', async () => {
    const { owner, maintainer, people, path, at } = await makeMergeRequest(app());
    await owner.put(at, { title: 'Draft: Later' });
    await maintainer.put(`${at}/merge`, { auto_merge: true });
    expect((await owner.delete(`${path}/members/${people.maintainer.id}`)).status).toBe(204);
    await owner.put(at, { title: 'Ready' });
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({ state: 'opened', merge_when_pipeline_succeeds: false });
    expect(await notesOf(owner, at)).toContain(
      'aborted the automatic merge because the person who set it may not merge any more',
    );
  });

  it('merges when users come or go whose approval counts', async () => {
    const waiting = async () => {
      const scene = await makeMergeRequest(app());
      const { owner, path, at, head } = scene;
      await report(owner, path, head, 'success');
      const approver = await app().make.user();
      await owner.post(`${path}/members`, { user_id: approver.id, access_level: 30 });
      await owner.post(`${path}/approval_rules`, { name: 'Ada', approvals_required: 1, user_ids: [approver.id] });
      expect((await owner.put(`${at}/merge`, { auto_merge: true })).body).toMatchObject({ state: 'opened' });
      await app().settle();
      return { ...scene, approver };
    };
    // A rule without eligible approvers counts as approved.
    const left = await waiting();
    expect((await left.owner.delete(`${left.path}/members/${left.approver.id}`)).status).toBe(204);
    await app().settle();
    expect((await left.owner.get(left.at)).body.state).toBe('merged');

    const closed = await waiting();
    expect((await app().as(app().root).post(`/users/${closed.approver.id}/block`)).status).toBe(201);
    await app().settle();
    await sweepAutoMerges.run(app().context(), {}, { attempt: 1, lastAttempt: true });
    await app().settle();
    expect((await closed.owner.get(closed.at)).body.state).toBe('merged');
  });

  it('ends if the merge is refused, and records why', async () => {
    const { owner, path, at } = await makeMergeRequest(app());
    await owner.put(at, { title: 'Draft: Later' });
    await owner.put(`${at}/merge`, { auto_merge: true, merge_commit_message: 'Evade the rule' });
    await owner.post(`${path}/push_rule`, { commit_message_regex: '^(Change|Merge)' });
    await owner.put(at, { title: 'Ready' });
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({
      state: 'opened',
      merge_when_pipeline_succeeds: false,
      merge_error: expect.stringContaining('commit_message_regex'),
    });
  });

  it('does not keep a person from merging at once', async () => {
    const { owner, path, at, head } = await makeMergeRequest(app());
    await report(owner, path, head, 'running');
    await owner.put(`${at}/merge`, { auto_merge: true });
    expect(await owner.put(`${at}/merge`)).toMatchObject({ status: 200, body: { state: 'merged' } });
  });

  it('can be cancelled by those who can merge and by the author', async () => {
    const { owner, reporter, stranger, maintainer, at } = await makeMergeRequest(app());
    const cancel = (client: Client) => client.post(`${at}/cancel_merge_when_pipeline_succeeds`);
    expect(await cancel(owner)).toMatchObject({
      status: 201,
      body: { status: 'error', message: "Can't cancel the automatic merge", http_status: 406 },
    });
    await owner.put(at, { title: 'Draft: Later' });
    await owner.put(`${at}/merge`, { auto_merge: true, should_remove_source_branch: true });
    expect((await owner.get(at)).body.should_remove_source_branch).toBe(true);
    expect((await cancel(reporter)).status).toBe(401);
    expect((await cancel(stranger)).status).toBe(404);
    expect((await cancel(app().anonymous)).status).toBe(401);
    expect(await cancel(maintainer)).toEqual(expect.objectContaining({ status: 201, body: { status: 'success' } }));
    expect((await owner.get(at)).body).toMatchObject({
      merge_when_pipeline_succeeds: false,
      merge_user: null,
      should_remove_source_branch: null,
    });
    expect(await notesOf(owner, at)).toContain('canceled the automatic merge');
    await owner.put(at, { title: 'Ready' });
    await app().settle();
    expect((await owner.get(at)).body.state).toBe('opened');
  });

  it('works over GraphQL', async () => {
    const { owner, project, head, at } = await makeMergeRequest(app());
    await owner.put(at, { title: 'Draft: Later' });
    const named = { projectPath: project.path_with_namespace, iid: '1' };
    const fields =
      'mergeRequest { autoMergeEnabled autoMergeStrategy mergeAfter rebaseInProgress shouldBeRebased shouldRemoveSourceBranch squash } errors';
    const accept = () =>
      owner.graphql(`mutation ($input: MergeRequestAcceptInput!) { mergeRequestAccept(input: $input) { ${fields} } }`, {
        input: {
          ...named,
          sha: head,
          strategy: 'MERGE_WHEN_CHECKS_PASS',
          shouldRemoveSourceBranch: true,
          squash: true,
        },
      });
    expect((await accept()).data.mergeRequestAccept).toEqual({
      mergeRequest: {
        autoMergeEnabled: true,
        autoMergeStrategy: 'merge_when_checks_pass',
        mergeAfter: null,
        rebaseInProgress: false,
        shouldBeRebased: false,
        shouldRemoveSourceBranch: true,
        squash: true,
      },
      errors: [],
    });
    expect((await accept()).data.mergeRequestAccept.errors).toEqual([
      'The merge request is already scheduled to be merged',
    ]);
    const cancel = () =>
      owner.graphql(
        `mutation ($input: MergeRequestCancelAutoMergeInput!) {
          mergeRequestCancelAutoMerge(input: $input) { mergeRequest { autoMergeEnabled } errors } }`,
        { input: named },
      );
    expect((await cancel()).data.mergeRequestCancelAutoMerge).toEqual({
      mergeRequest: { autoMergeEnabled: false },
      errors: [],
    });
    expect((await cancel()).data.mergeRequestCancelAutoMerge.errors).toEqual(["Can't cancel the automatic merge"]);
  });
});
