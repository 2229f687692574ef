import { describe, expect, it } from 'vitest';
import { makeMergeRequest } from '../merge-requests/merge-scene.ts';
import { insertPipeline } from '../merge-requests/support.ts';
import { useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { makeReview } from './support.ts';

const app = useApp();

describe('quick actions in replies and threads', () => {
  it('run and vanish, and leave no discussion if there is nothing else', async () => {
    const { owner, reporter, stranger, at, on, id } = await makeReview(app());
    const thread = await owner.post(`${at}/discussions`, {
      body: 'Why?\n/label ~question',
      position: on({ new_line: 10 }),
    });
    expect(thread).toMatchObject({ status: 201, body: { notes: [{ body: 'Why?', type: 'DiffNote' }] } });
    const replies = `${at}/discussions/${thread.body.id}/notes`;
    const reply = await owner.post(replies, { body: 'Because.\n/label ~answer' });
    expect(reply).toMatchObject({
      status: 201,
      body: { body: 'Because.', discussion_id: thread.body.id, commands_changes: { add_labels: ['answer'] } },
    });
    expect((await owner.get(at)).body.labels).toEqual(['answer', 'question']);

    const only = { status: 202, body: { commands_changes: { add_labels: ['more'] } } };
    expect(await owner.post(replies, { body: '/label ~more' })).toMatchObject(only);
    expect(await owner.post(`${at}/discussions`, { body: '/label ~more' })).toMatchObject(only);
    const noteableId = `gid://gitlab/MergeRequest/${id}`;
    expect(await mutate(owner, 'createDiscussion', { noteableId, body: '/unlabel' }, 'note { id }')).toMatchObject({
      note: null,
    });
    expect((await owner.get(at)).body.labels).toEqual([]);

    expect((await reporter.post(replies, { body: 'Hm\n/merge' })).status).toBe(403);
    expect((await stranger.post(replies, { body: '/approve' })).status).toBe(404);
    expect((await owner.post(replies, { body: 'Hm\n/submit_review perhaps' })).status).toBe(400);
    const { notes } = (await owner.get(`${at}/discussions/${thread.body.id}`)).body;
    expect(notes.map(({ body }: { body: string }) => body)).toEqual(['Why?', 'Because.']);
  });

  it('of issues run too', async () => {
    const { owner, path } = await makeReview(app());
    await owner.post(`${path}/issues`, { title: 'A bug' });
    const answer = await owner.post(`${path}/issues/1/discussions`, { body: '/close' });
    expect(answer).toMatchObject({ status: 202, body: { commands_changes: { state_event: 'close' } } });
    expect((await owner.get(`${path}/issues/1`)).body.state).toBe('closed');
    // Issues do not know the commands of merge requests.
    const text = await owner.post(`${path}/issues/1/notes`, { body: '/approve' });
    expect(text).toMatchObject({ status: 201, body: { body: '/approve' } });
  });
});

describe('quick actions of a review', () => {
  it('approve, and take the approval back', async () => {
    const { owner, developer, reporter, people, at } = await makeReview(app());
    const approvers = async () =>
      (await owner.get(`${at}/approvals`)).body.approved_by.map(({ user }: { user: { id: number } }) => user.id);
    const answer = await developer.post(`${at}/notes`, { body: '/approve' });
    expect(answer).toMatchObject({ status: 202, body: { commands_changes: { approve: true } } });
    expect(await approvers()).toEqual([people.developer.id]);
    expect((await developer.post(`${at}/notes`, { body: 'Again\n/approve' })).status).toBe(201);
    expect((await developer.post(`${at}/notes`, { body: '/unapprove' })).status).toBe(202);
    expect(await approvers()).toEqual([]);
    expect((await reporter.post(`${at}/notes`, { body: '/approve' })).status).toBe(403);
    expect(await approvers()).toEqual([]);
    const described = await owner.put(at, { description: '/approve' });
    expect(described.body.description).toBe('/approve');
    expect(await approvers()).toEqual([]);
  });

  it('submit drafts with a verdict', async () => {
    const { owner, developer, people, at } = await makeReview(app());
    await owner.put(at, { reviewer_ids: [people.developer.id] });
    const stateOf = async () => (await owner.get(`${at}/reviewers`)).body[0].state;
    const draft = (note: string) => developer.post(`${at}/draft_notes`, { note });
    await draft('First');
    expect((await developer.post(`${at}/notes`, { body: '/submit_review' })).status).toBe(202);
    expect(await stateOf()).toBe('reviewed');
    await developer.post(`${at}/notes`, { body: '/submit_review requested_changes' });
    expect(await stateOf()).toBe('requested_changes');
    await draft('Second');
    expect((await developer.post(`${at}/draft_notes/bulk_publish`)).status).toBe(204);
    expect(await stateOf()).toBe('requested_changes');
    await developer.post(`${at}/notes`, { body: '/submit_review approve' });
    expect(await stateOf()).toBe('approved');
    expect((await owner.get(`${at}/notes?activity_filter=only_comments&sort=asc`)).body).toMatchObject([
      { body: 'First' },
      { body: 'Second' },
    ]);
  });

  it('leave the state of a review to reviewers', async () => {
    const { owner, developer, people, at } = await makeReview(app());
    await owner.put(at, { reviewer_ids: [people.developer.id] });
    await developer.post(`${at}/draft_notes`, { note: 'One' });
    await developer.post(`${at}/draft_notes/bulk_publish`);
    expect((await owner.get(`${at}/reviewers`)).body).toMatchObject([{ state: 'reviewed' }]);
    await owner.post(`${at}/draft_notes`, { note: 'Two' });
    expect((await owner.post(`${at}/draft_notes/bulk_publish`)).status).toBe(204);
    expect((await owner.get(`${at}/reviewers`)).body).toMatchObject([{ state: 'reviewed' }]);
  });
});

describe('the quick action /merge', () => {
  it('merges a merge request that was a draft until the same comment', async () => {
    const { owner, at } = await makeMergeRequest(app());
    await owner.put(at, { title: 'Draft: Add two files' });
    const both = await owner.post(`${at}/notes`, { body: 'Ship it.\n/ready\n/merge' });
    expect(both).toMatchObject({ status: 201, body: { body: 'Ship it.' } });
    expect((await owner.get(at)).body).toMatchObject({ state: 'merged', draft: false });
  });

  it('waits for a pipeline that runs, and is refused if waiting does not help', async () => {
    const { owner, at, project, head, path } = await makeMergeRequest(app());
    await insertPipeline(app().hub.services.db, {
      project_id: project.id,
      sha: head,
      ref: 'feature',
      status: 'running',
    });
    expect((await owner.post(`${at}/notes`, { body: '/merge' })).status).toBe(202);
    expect((await owner.get(at)).body).toMatchObject({ state: 'opened', merge_when_pipeline_succeeds: true });
    await owner.put(at, { state_event: 'close' });
    expect((await owner.post(`${at}/notes`, { body: 'x\n/merge' })).status).toBe(405);
    expect((await owner.get(`${path}/merge_requests/1`)).body.state).toBe('closed');
  });
});

describe('the quick action /rebase', () => {
  it('rebases the source branch', async () => {
    const { owner, at, target } = await makeMergeRequest(app());
    const answer = await owner.post(`${at}/notes`, { body: '/rebase' });
    expect(answer).toMatchObject({ status: 202, body: { commands_changes: { rebase: true } } });
    await app().settle();
    expect((await owner.get(at)).body).toMatchObject({ diff_refs: { base_sha: target }, merge_error: null });
  });
});
