import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { countStatements } from '../support/statements.ts';
import { makeScene } from './scene.ts';

const app = useApp();

const bodies = (answer: { readonly body: readonly { readonly body: string }[] }) =>
  answer.body.map((each) => each.body);

/** Inserts a merge request directly into the database. */
const mergeRequest = async (projectId: number, iid = 1) =>
  app()
    .hub.services.db.insertInto('merge_requests')
    .values({ project_id: projectId, iid, title: 'mr', source_branch: 'a', target_branch: 'main' })
    .returning('id')
    .executeTakeFirstOrThrow();

describe('notes', () => {
  it('creates, reads, lists, changes and deletes notes', async () => {
    const { path, people, owner } = await makeScene(app());
    const { body: issue } = await owner.post(`${path}/issues`, { title: 'i' });
    const notes = `${path}/issues/1/notes`;
    const made = await owner.post(notes, { body: 'first', created_at: '2020-01-01T00:00:00Z' });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({
      type: null,
      body: 'first',
      attachment: null,
      author: { id: people.owner.id },
      created_at: '2020-01-01T00:00:00.000Z',
      system: false,
      noteable_id: issue.id,
      noteable_type: 'Issue',
      noteable_iid: 1,
      project_id: issue.project_id,
      resolvable: false,
      confidential: false,
      internal: false,
      commands_changes: {},
    });
    expect(made.body.discussion_id).toMatch(/^[0-9a-f]{40}$/);
    await owner.post(notes, { body: 'second' });
    expect(bodies(await owner.get(notes))).toEqual(['second', 'first']);
    expect(bodies(await owner.get(`${notes}?sort=asc&order_by=updated_at`))).toEqual(['first', 'second']);
    expect(bodies(await owner.get(`${notes}?activity_filter=only_activity`))).toEqual([]);
    const one = `${notes}/${made.body.id}`;
    expect((await owner.get(one)).body).toEqual(made.body);
    expect((await owner.put(one, { body: ' ' })).body).toEqual({ message: { note: ["can't be blank"] } });
    expect((await owner.put(one, {})).status).toBe(400);
    expect((await owner.put(one, { body: 'changed' })).body.body).toBe('changed');
    const after = await owner.get(`${path}/issues/1`);
    expect(after.body.user_notes_count).toBe(2);
    expect(Date.parse(after.body.updated_at)).toBeGreaterThan(Date.parse(issue.updated_at));
    expect((await owner.delete(one)).status).toBe(204);
    expect(await owner.get(one)).toMatchObject({ status: 404, body: { message: '404 Note Not Found' } });
    // A comment is found only on its own issue.
    await owner.post(`${path}/issues`, { title: 'other' });
    const [left] = (await owner.get(notes)).body;
    expect((await owner.get(`${path}/issues/2/notes/${left.id}`)).status).toBe(404);
    expect((await owner.delete(`${path}/issues/2/notes/${left.id}`)).status).toBe(404);
    expect(bodies(await owner.get(notes))).toEqual(['second']);
  });

  it('lets members comment, authors edit their own notes, and Maintainers delete any', async () => {
    const { path, owner, maintainer, guest, stranger } = await makeScene(app());
    await owner.post(`${path}/issues`, { title: 'i' });
    const notes = `${path}/issues/1/notes`;
    const { body: theirs } = await guest.post(notes, { body: 'theirs' });
    const one = `${notes}/${theirs.id}`;
    for (const [who, read, write] of [
      [app().anonymous, 404, 401],
      [stranger, 404, 404],
    ] as const) {
      expect((await who.get(notes)).status).toBe(read);
      expect((await who.get(one)).status).toBe(read);
      expect((await who.post(notes, { body: 'x' })).status).toBe(write);
      expect((await who.put(one, { body: 'x' })).status).toBe(write);
      expect((await who.delete(one)).status).toBe(write);
    }
    expect((await owner.put(one, { body: 'x' })).status).toBe(403);
    const { body: other } = await owner.post(notes, { body: 'other' });
    expect((await guest.delete(`${notes}/${other.id}`)).status).toBe(403);
    expect((await guest.put(one, { body: 'still theirs' })).body.body).toBe('still theirs');
    expect((await maintainer.delete(one)).status).toBe(204);
    expect(bodies(await guest.get(notes))).toEqual(['other']);
  });

  it('shows internal notes and counts them only for Reporters and above', async () => {
    const { path, project, owner, reporter, guest } = await makeScene(app());
    await guest.post(`${path}/issues`, { title: 'i' });
    const notes = `${path}/issues/1/notes`;
    expect((await guest.post(notes, { body: 'x', internal: true })).status).toBe(403);
    const { body: secret } = await reporter.post(notes, { body: 'secret', internal: true });
    await owner.post(notes, { body: 'open' });
    expect(secret).toMatchObject({ internal: true, confidential: true });
    expect(bodies(await owner.get(notes))).toEqual(['open', 'secret']);
    expect(bodies(await guest.get(notes))).toEqual(['open']);
    expect((await guest.get(notes)).headers.get('x-total')).toBe('1');
    expect((await guest.get(`${notes}/${secret.id}`)).status).toBe(404);
    expect((await guest.get(`${path}/issues/1`)).body.user_notes_count).toBe(1);
    expect((await owner.get(`${path}/issues/1`)).body.user_notes_count).toBe(2);
    const query = `query ($id: NoteID!) { note(id: $id) { body } project(fullPath: "${project.path_with_namespace}") {
      issue(iid: "1") { userNotesCount userDiscussionsCount notes { count nodes { body internal } } } } }`;
    const id = `gid://gitlab/Note/${secret.id}`;
    expect((await guest.graphql(query, { id })).data).toEqual({
      note: null,
      project: {
        issue: {
          userNotesCount: 1,
          userDiscussionsCount: 1,
          notes: { count: 1, nodes: [{ body: 'open', internal: false }] },
        },
      },
    });
    expect((await reporter.graphql(query, { id })).data).toMatchObject({
      note: { body: 'secret' },
      project: { issue: { userNotesCount: 2, userDiscussionsCount: 2, notes: { count: 2 } } },
    });
    expect((await app().anonymous.graphql(query, { id })).data).toEqual({ note: null, project: null });
  });

  it('accepts only comments of members in a locked discussion', async () => {
    const { path, owner, guest, stranger } = await makeScene(app(), { visibility: 'public' });
    await owner.post(`${path}/issues`, { title: 'i' });
    const notes = `${path}/issues/1/notes`;
    expect((await stranger.post(notes, { body: 'hello' })).status).toBe(201);
    await owner.put(`${path}/issues/1`, { discussion_locked: true });
    expect((await stranger.post(notes, { body: 'x' })).status).toBe(403);
    expect((await guest.post(notes, { body: 'member' })).status).toBe(201);
    const comments = await app().anonymous.get(`${notes}?sort=asc&activity_filter=only_comments`);
    expect(bodies(comments)).toEqual(['hello', 'member']);
  });

  it('accepts notes on merge requests', async () => {
    const { path, project, owner, reporter, guest } = await makeScene(app());
    await mergeRequest(project.id);
    const notes = `${path}/merge_requests/1/notes`;
    const made = await reporter.post(notes, { body: 'looks good' });
    expect(made.body).toMatchObject({ noteable_type: 'MergeRequest', noteable_iid: 1 });
    expect(bodies(await owner.get(notes))).toEqual(['looks good']);
    // Guests of a private project cannot read merge requests.
    expect((await guest.get(notes)).status).toBe(403);
    expect((await guest.post(notes, { body: 'x' })).status).toBe(403);
    expect((await owner.get(`${path}/merge_requests/2/notes`)).status).toBe(404);
    const query = `{ project(fullPath: "${project.path_with_namespace}") { mergeRequest(iid: "1") { notes { nodes { body url author { id } } } } } }`;
    const { data, errors } = await owner.graphql(query);
    expect(errors).toBeUndefined();
    expect(data.project.mergeRequest.notes.nodes).toMatchObject([
      {
        body: 'looks good',
        url: `${app().url}/${project.path_with_namespace}/-/merge_requests/1#note_${made.body.id}`,
      },
    ]);
  });

  it('follows the same rules over GraphQL', async () => {
    const { path, project, people, owner, guest, stranger } = await makeScene(app());
    const { body: issue } = await owner.post(`${path}/issues`, { title: 'i' });
    const noteableId = `gid://gitlab/Issue/${issue.id}`;
    const create = `mutation ($input: CreateNoteInput!) { createNote(input: $input) { errors note {
      id body discussionId url author { username } userPermissions { updateNote adminNote } } } }`;
    const made = await guest.graphql(create, { input: { noteableId, body: 'hi' } });
    expect(made.errors).toBeUndefined();
    const { note } = made.data.createNote;
    expect(note).toMatchObject({
      body: 'hi',
      author: { username: people.guest.username },
      userPermissions: { updateNote: true, adminNote: true },
    });
    expect(note.url).toMatch(new RegExp(`/${project.path_with_namespace}/-/issues/1#note_\\d+$`));
    const answer = await owner.graphql(create, { input: { noteableId, body: 'ho', discussionId: note.discussionId } });
    expect(answer.data.createNote.note.discussionId).toBe(note.discussionId);
    const types = (await owner.get(`${path}/issues/1/notes`)).body.map((each: { type: string }) => each.type);
    expect(types).toEqual(['DiscussionNote', 'DiscussionNote']);
    expect((await owner.graphql(create, { input: { noteableId, body: ' ' } })).data.createNote).toEqual({
      errors: ["Note can't be blank"],
      note: null,
    });
    expect((await stranger.graphql(create, { input: { noteableId, body: 'x' } })).errors).toHaveLength(1);
    expect((await app().anonymous.graphql(create, { input: { noteableId, body: 'x' } })).errors).toHaveLength(1);
    const update = 'mutation ($input: UpdateNoteInput!) { updateNote(input: $input) { errors note { body } } }';
    expect((await owner.graphql(update, { input: { id: note.id, body: 'x' } })).errors).toHaveLength(1);
    expect((await guest.graphql(update, { input: { id: note.id, body: 'hey' } })).data.updateNote.note.body).toBe(
      'hey',
    );
    const destroy = 'mutation ($input: DestroyNoteInput!) { destroyNote(input: $input) { errors note { id } } }';
    expect((await stranger.graphql(destroy, { input: { id: note.id } })).errors).toHaveLength(1);
    expect((await owner.graphql(destroy, { input: { id: note.id } })).data.destroyNote).toEqual({
      errors: [],
      note: null,
    });
    expect(bodies(await owner.get(`${path}/issues/1/notes`))).toEqual(['ho']);
  });

  it('runs as many statements for many issues as for one', async () => {
    const { path, project, owner } = await makeScene(app());
    const query = `{ project(fullPath: "${project.path_with_namespace}") { issues(first: 10) { nodes {
      notes(first: 5) { count nodes { body url author { username } userPermissions { adminNote } } } } } } }`;
    const add = async (iid: number) => {
      await owner.post(`${path}/issues`, { title: 'i' });
      await owner.post(`${path}/issues/${iid}/notes`, { body: 'a' });
      await owner.post(`${path}/issues/${iid}/notes`, { body: 'b' });
    };
    const read = async () => {
      const { data, errors } = await owner.graphql(query);
      expect(errors).toBeUndefined();
      return data.project.issues.nodes;
    };
    await add(1);
    const one = await countStatements(app(), read);
    for (let iid = 2; iid <= 5; iid++) await add(iid);
    expect(await countStatements(app(), async () => expect(await read()).toHaveLength(5))).toBe(one);
  });
});
