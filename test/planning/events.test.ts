import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { readEvents } from '#platform/event-log/read.ts';
import { useApp } from '../support/app.ts';
import { computedMs } from '../support/computed-ms.ts';
import { makeScene } from './scene.ts';

const app = useApp();

/** Returns all events of the project, in order. */
const eventsOf = async (projectId: number) => {
  await app().settle();
  return readEvents(
    app().hub.services.db,
    { after: 0, until: Number.MAX_SAFE_INTEGER, limit: 1_000 },
    { kinds: null, project_id: projectId },
  );
};

/** Returns the newest event of this kind, with the trigger and body that hooks get. */
const hookOf = async (projectId: number, kind: string) => {
  const event = (await eventsOf(projectId)).findLast((each) => each.kind === kind);
  const definition = eventDefinitions.find((each) => each.kind === kind);
  if (!event || !definition) throw new Error(`no event ${kind}`);
  const trigger = definition.trigger(event.payload);
  return { event, trigger, body: trigger === null ? null : await definition.body(app().context(), event) };
};

describe('planning events', () => {
  it('sends full URLs of attached images to hooks, and handles hostile text quickly', async () => {
    const { path, project, owner } = await makeScene(app());
    const attached = '/uploads/18d32f2b14a950f6acd0040e06ad8a38223a601c/a.png';
    const text = `![a](${attached}) ![b](https://example.com/b.png) [c](${attached}) \n`;
    const whole = `![a](${app().url}/-/project/${project.id}${attached}) ![b](https://example.com/b.png) [c](${attached}) \n`;
    const description = text + '!['.repeat(100_000) + '![](/uploads/'.repeat(20_000);
    await owner.post(`${path}/issues`, { title: 'pictures', description });
    await owner.post(`${path}/issues/1/notes`, { body: text });
    const started = computedMs();
    const { body, event } = await hookOf(project.id, 'issue.opened');
    expect(computedMs() - started).toBeLessThan(2_000);
    expect(body).toMatchObject({ object_attributes: { description: whole + description.slice(text.length) } });
    expect(event.payload).toMatchObject({ issue: { description } });
    expect((await hookOf(project.id, 'note.created')).body).toMatchObject({
      object_attributes: { note: whole, description: whole },
    });
  });

  it('formats times as records do, in changes too', async () => {
    const { path, project, people, owner } = await makeScene(app());
    await owner.post(`${path}/issues`, { title: 'timed', labels: 'bug', assignee_ids: [people.guest.id] });
    await owner.put(`${path}/issues/1`, { title: 'later', state_event: 'close' });
    await owner.post(`${path}/issues/1/notes`, { body: 'seen' });
    await owner.post(`${path}/milestones`, { title: 'M1', due_date: '2030-01-02' });
    const timed = (await eventsOf(project.id)).filter(({ kind }) => /^(issue|note|milestone|label)\./.test(kind));
    expect(new Set(timed.map(({ kind }) => kind))).toEqual(
      new Set(['label.created', 'issue.opened', 'issue.closed', 'note.created', 'milestone.created']),
    );
    const texts = JSON.stringify(timed.map(({ payload }) => payload));
    expect(texts.match(/\d{4}-\d\d-\d\d[ T][^"]*/g)?.filter((time) => !/^\S{10}T\S{8}\.\d{3}Z$/.test(time))).toEqual(
      [],
    );
    const { body } = await hookOf(project.id, 'issue.closed');
    const hookTime = expect.stringMatching(/^\S{10} \S{8} UTC$/);
    expect(body).toMatchObject({
      object_attributes: { created_at: expect.stringMatching(/T.*Z$/) },
      changes: {
        closed_at: { previous: null, current: hookTime },
        updated_at: { previous: hookTime, current: hookTime },
      },
    });
  });

  it('reports issues and their changes in the documented hook bodies', async () => {
    const { path, project, people, owner } = await makeScene(app());
    await owner.post(`${path}/issues`, { title: 'one', labels: 'bug', assignee_ids: [people.guest.id] });
    const opened = await hookOf(project.id, 'issue.opened');
    const other = await makeScene(app());
    await other.owner.post(`${other.path}/issues`, { title: 'Down', issue_type: 'incident' });
    expect((await hookOf(other.project.id, 'issue.opened')).body).toMatchObject({ object_kind: 'work_item' });
    expect(opened.trigger).toBe('issues_events');
    expect(opened.event).toMatchObject({ subject_type: 'Issue', min_access_level: null, actor_id: people.owner.id });
    const user = { id: people.owner.id, username: people.owner.username, email: '[REDACTED]' };
    expect(opened.body).toMatchObject({
      object_kind: 'issue',
      event_type: 'issue',
      user,
      project: { id: project.id, path_with_namespace: project.path_with_namespace },
      object_attributes: {
        iid: 1,
        title: 'one',
        action: 'open',
        state: 'opened',
        state_id: 1,
        type: 'Issue',
        author_id: people.owner.id,
        assignee_ids: [people.guest.id],
        assignee_id: people.guest.id,
        labels: [{ title: 'bug', type: 'ProjectLabel' }],
        url: `${app().url}/${project.path_with_namespace}/-/issues/1`,
      },
      assignees: [{ id: people.guest.id }],
      labels: [{ title: 'bug' }],
      changes: {},
    });
    await owner.put(`${path}/issues/1`, { title: 'two', labels: '', assignee_ids: [] });
    const updated = await hookOf(project.id, 'issue.updated');
    expect(updated.body).toMatchObject({
      object_attributes: { action: 'update', title: 'two' },
      changes: {
        title: { previous: 'one', current: 'two' },
        labels: { previous: [{ title: 'bug' }], current: [] },
        assignees: { previous: [{ id: people.guest.id }], current: [] },
        updated_at: { previous: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/) },
      },
    });
    expect(updated.body).not.toHaveProperty('assignees');
    await owner.put(`${path}/issues/1`, { state_event: 'close' });
    expect((await hookOf(project.id, 'issue.closed')).body).toMatchObject({
      object_attributes: { action: 'close', state: 'closed', state_id: 2 },
      changes: { state_id: { previous: 1, current: 2 } },
    });
    await owner.put(`${path}/issues/1`, { state_event: 'reopen' });
    expect((await hookOf(project.id, 'issue.reopened')).body).toMatchObject({
      object_attributes: { action: 'reopen' },
    });
    const before = (await eventsOf(project.id)).length;
    await owner.put(`${path}/issues/1`, { title: 'two', state_event: 'reopen' });
    expect(await eventsOf(project.id)).toHaveLength(before);
    await owner.delete(`${path}/issues/1`);
    expect((await hookOf(project.id, 'issue.deleted')).trigger).toBeNull();
    await owner.delete(path);
    const late = await eventsOf(project.id);
    const definition = eventDefinitions.find((each) => each.kind === 'issue.opened');
    const first = late.find((each) => each.kind === 'issue.opened');
    expect(first && (await definition?.body(app().context(), first))).toBeNull();
  });

  it('shows confidential issues and notes only to users who may read them', async () => {
    const { path, project, people, owner, reporter } = await makeScene(app());
    await owner.post(`${path}/issues`, { title: 'secret', confidential: true, assignee_ids: [people.guest.id] });
    const opened = await hookOf(project.id, 'issue.opened');
    expect(opened.trigger).toBe('confidential_issues_events');
    expect(opened.event.min_access_level).toBe(15);
    expect([...opened.event.user_ids].sort()).toEqual([people.owner.id, people.guest.id].sort());
    expect(opened.body).toMatchObject({ event_type: 'confidential_issue' });
    await owner.post(`${path}/issues/1/notes`, { body: 'psst' });
    const noted = await hookOf(project.id, 'note.created');
    expect(noted.trigger).toBe('confidential_note_events');
    expect(noted.event).toMatchObject({ min_access_level: 15 });
    expect(noted.body).toMatchObject({ event_type: 'confidential_note', issue: { confidential: true } });
    await owner.post(`${path}/issues`, { title: 'open' });
    await reporter.post(`${path}/issues/2/notes`, { body: 'internal', internal: true });
    const internal = await hookOf(project.id, 'note.created');
    expect(internal).toMatchObject({
      trigger: 'confidential_note_events',
      event: { min_access_level: 20, user_ids: [] },
    });
    await reporter.post(`${path}/issues/2/notes`, { body: 'plain' });
    const plain = await hookOf(project.id, 'note.created');
    expect(plain).toMatchObject({ trigger: 'note_events', event: { min_access_level: null } });
    expect(plain.body).toMatchObject({
      object_kind: 'note',
      event_type: 'note',
      project_id: project.id,
      object_attributes: { note: 'plain', noteable_type: 'Issue', action: 'create', system: false },
      issue: { iid: 2, title: 'open' },
    });
  });

  it('treats a comment that makes its issue confidential as confidential', async () => {
    const { path, project, owner } = await makeScene(app());
    await owner.post(`${path}/issues`, { title: 'open' });
    await owner.post(`${path}/issues/1/notes`, { body: 'the password is x\n/confidential' });
    const { event, trigger, body } = await hookOf(project.id, 'note.created');
    expect([trigger, event.min_access_level]).toEqual(['confidential_note_events', 15]);
    expect(body).toMatchObject({
      event_type: 'confidential_note',
      object_attributes: { note: 'the password is x' },
      issue: { confidential: true },
    });
    expect((await hookOf(project.id, 'issue.updated')).trigger).toBe('confidential_issues_events');
  });

  it('sends no hook an issue that became confidential after the comment or emoji', async () => {
    const { path, project, owner, guest } = await makeScene(app());
    await owner.post(`${path}/issues`, { title: 'open' });
    const { body: note } = await guest.post(`${path}/issues/1/notes`, { body: 'seen' });
    await guest.post(`${path}/issues/1/award_emoji`, { name: 'thumbsup' });
    await guest.post(`${path}/issues/1/notes/${note.id}/award_emoji`, { name: 'heart' });
    await owner.put(`${path}/issues/1`, { confidential: true, description: 'the secret' });
    for (const kind of ['note.created', 'award_emoji.created']) {
      const late = await hookOf(project.id, kind);
      expect([late.trigger, late.body]).toEqual([kind === 'note.created' ? 'note_events' : 'emoji_events', null]);
    }
    await guest.delete(`${path}/issues/1/notes/${note.id}`);
    await owner.post(`${path}/issues/1/notes`, { body: 'hushed' });
    const hushed = await hookOf(project.id, 'note.created');
    expect(hushed.trigger).toBe('confidential_note_events');
    expect(hushed.body).toMatchObject({ issue: { description: 'the secret' }, object_attributes: { note: 'hushed' } });
    await owner.put(`${path}/issues/1`, { confidential: false });
    expect((await hookOf(project.id, 'note.created')).body).toMatchObject({ issue: { confidential: false } });
  });

  it('reports milestones and labels', async () => {
    const { path, project, owner } = await makeScene(app());
    const { body } = await owner.post(`${path}/milestones`, { title: 'm', due_date: '2030-01-01' });
    const created = await hookOf(project.id, 'milestone.created');
    expect(created.trigger).toBe('milestone_events');
    expect(created.body).toMatchObject({
      object_kind: 'milestone',
      action: 'create',
      project: { id: project.id },
      object_attributes: {
        iid: 1,
        title: 'm',
        due_date: '2030-01-01',
        created_at: expect.stringMatching(/ UTC$/),
        project_id: project.id,
      },
    });
    await owner.put(`${path}/milestones/${body.id}`, { state_event: 'close' });
    expect((await hookOf(project.id, 'milestone.closed')).body).toMatchObject({ action: 'close' });
    await owner.put(`${path}/milestones/${body.id}`, { state_event: 'activate' });
    expect((await hookOf(project.id, 'milestone.reopened')).body).toMatchObject({ action: 'reopen' });
    await owner.delete(`${path}/milestones/${body.id}`);
    expect((await hookOf(project.id, 'milestone.deleted')).body).toMatchObject({ action: 'delete' });
    await owner.post(`${path}/labels`, { name: 'l', color: '#123456' });
    await owner.put(`${path}/labels/l`, { color: '#654321' });
    const { event, trigger } = await hookOf(project.id, 'label.updated');
    expect(trigger).toBeNull();
    expect(event.payload).toMatchObject({
      title: 'l',
      changes: { color: { previous: '#123456', current: '#654321' } },
    });
  });

  it('includes the merge request with a comment on it', async () => {
    const { path, project, owner } = await makeScene(app());
    const { db } = app().hub.services;
    await db
      .insertInto('merge_requests')
      .values({ project_id: project.id, iid: 1, title: 'mr', source_branch: 'a', target_branch: 'main' })
      .execute();
    await owner.post(`${path}/merge_requests/1/notes`, { body: 'x' });
    const { body, event } = await hookOf(project.id, 'note.created');
    // In a private project, merge requests are visible to Reporters and above.
    expect(event.min_access_level).toBe(20);
    expect(body).toMatchObject({
      object_attributes: { noteable_type: 'MergeRequest' },
      merge_request: { iid: 1, title: 'mr', source_branch: 'a', target: { id: project.id } },
    });
    expect(body).not.toHaveProperty('issue');
  });
});
