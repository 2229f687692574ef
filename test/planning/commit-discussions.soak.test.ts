import { Gitlab } from '@gitbeaker/rest';
import { describe, expect, it } from 'vitest';
import { readEvents } from '#platform/event-log/read.ts';
import { filledProject } from '../repositories/reading-support.ts';
import { runGit, useFolder } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const folder = useFolder();

const setUp = async (attributes: Record<string, unknown> = {}) => {
  const filled = await filledProject(app(), folder(), { a: 'one\n' }, attributes);
  const sha = await filled.commit({ a: 'one\ntwo\n', b: 'new\n' }, 'Second');
  return { ...filled, sha, client: app().as(filled.owner), discussions: filled.path(`/commits/${sha}/discussions`) };
};

const kindsOf = async (projectId: number) => {
  await app().settle();
  const window = { after: 0, until: Number.MAX_SAFE_INTEGER, limit: 1_000 };
  const events = await readEvents(app().hub.services.db, window, { kinds: null, project_id: projectId });
  return events.map(({ kind }) => kind).filter((kind) => kind.startsWith('note.'));
};

describe('discussions on commits', () => {
  it('starts, answers, changes and deletes discussions', async () => {
    const { client, discussions, owner, project, sha } = await setUp();
    const begun = await client.post(discussions, { body: 'Why?' });
    expect([begun.status, begun.body]).toEqual([
      201,
      {
        id: expect.stringMatching(/^[0-9a-f]{40}$/),
        individual_note: false,
        notes: [
          expect.objectContaining({
            type: 'DiscussionNote',
            body: 'Why?',
            author: expect.objectContaining({ id: owner.id }),
            noteable_type: 'Commit',
            noteable_id: null,
            noteable_iid: null,
            commit_id: sha,
            project_id: project.id,
            discussion_id: begun.body.id,
            resolvable: false,
          }),
        ],
      },
    ]);
    const one = `${discussions}/${begun.body.id}`;
    const answer = await client.post(`${one}/notes`, { body: 'Because.' });
    expect([answer.status, answer.body]).toEqual([
      201,
      expect.objectContaining({ body: 'Because.', type: 'DiscussionNote', discussion_id: begun.body.id }),
    ]);
    const noteUrl = `${one}/notes/${answer.body.id}`;
    expect((await client.get(noteUrl)).body).toEqual(answer.body);
    const changed = await client.put(noteUrl, { body: 'Therefore.' });
    expect([changed.status, changed.body.body]).toEqual([200, 'Therefore.']);
    expect((await client.get(one)).body).toEqual({ ...begun.body, notes: [...begun.body.notes, changed.body] });
    expect((await client.get(`${one}/notes`)).body).toEqual([...begun.body.notes, changed.body]);
    expect((await client.delete(noteUrl)).status).toBe(204);
    expect((await client.get(noteUrl)).body).toEqual({ message: '404 Note Not Found' });
    expect((await client.get(one)).body).toEqual(begun.body);
    expect((await client.delete(`${one}/notes/${begun.body.notes[0].id}`)).status).toBe(204);
    expect((await client.get(one)).body).toEqual({ message: '404 Discussion Not Found' });
    expect(await kindsOf(project.id)).toEqual([
      'note.created',
      'note.created',
      'note.updated',
      'note.deleted',
      'note.deleted',
    ]);
  });

  it('lists comments as discussions, oldest first, and as individual notes until someone answers', async () => {
    const { client, discussions, path, sha } = await setUp();
    const comments = path(`/commits/${sha}/comments`);
    await client.post(comments, { note: 'Alone' });
    const placed = { position_type: 'text', new_path: 'a', new_line: 2 };
    const onLine = await client.post(discussions, { body: 'On a line', position: placed });
    await client.post(discussions, { body: 'Third' });
    const all = (await client.get(discussions)).body;
    expect(all).toMatchObject([
      { individual_note: true, notes: [{ body: 'Alone', type: null }] },
      { individual_note: false, id: onLine.body.id, notes: [{ type: 'DiffNote', position: { new_line: 2 } }] },
      { individual_note: false, notes: [{ body: 'Third' }] },
    ]);
    const second = await client.get(`${discussions}?per_page=1&page=2`);
    expect([second.body, second.headers.get('x-total'), second.headers.get('x-next-page')]).toEqual([
      [all[1]],
      '3',
      '3',
    ]);
    await client.post(`${discussions}/${all[0].id}/notes`, { body: 'No more' });
    await client.post(`${discussions}/${all[1].id}/notes`, { body: 'There, too' });
    const answered = (await client.get(discussions)).body;
    expect(answered[0]).toMatchObject({ individual_note: false, notes: [{ body: 'Alone' }, { body: 'No more' }] });
    // An answer has the same position as its discussion.
    expect(answered[1].notes[1]).toMatchObject({ type: 'DiffNote', position: answered[1].notes[0].position });
    expect((await client.get(comments)).body).toMatchObject([
      { note: 'Alone', line: null },
      { note: 'On a line', path: 'a', line: 2, line_type: 'new' },
      { note: 'Third' },
      { note: 'No more' },
      { note: 'There, too', path: 'a', line: 2 },
    ]);
  });

  it('requires a commit, a text and a position in that commit', async () => {
    const { client, discussions, path, project, sha } = await setUp();
    const parent = (await client.get(path(`/commits/${sha}`))).body.parent_ids[0];
    const text = { position_type: 'text', base_sha: parent, start_sha: parent, head_sha: sha };
    const whole = { ...text, new_path: 'a', old_path: 'a', new_line: 1, old_line: 1 };
    expect((await client.post(discussions, { body: 'x', position: whole })).body.notes[0].position).toEqual(whole);
    const wrong = [
      {},
      { body: ' ' },
      { body: 'x', position: 'a' },
      { body: 'x', position: { new_path: 'a', new_line: 1 } },
      { body: 'x', position: { ...whole, position_type: 'image' } },
      { body: 'x', position: { ...text, new_path: 'a' } },
      { body: 'x', position: { ...text, new_line: 1 } },
      { body: 'x', position: { ...whole, new_line: 0 } },
      { body: 'x', position: { ...whole, head_sha: parent } },
      { body: 'x', position: { ...whole, base_sha: sha } },
      { body: 'x', position: { ...whole, start_sha: sha } },
      { body: 'x', position: { ...text, new_path: '../a', new_line: 1 } },
      { body: 'x', position: { ...text, new_path: 'absent', new_line: 1 } },
      // This commit added the file, so it has no old side.
      { body: 'x', position: { ...text, old_path: 'b', old_line: 1 } },
    ];
    for (const body of wrong) expect([body, (await client.post(discussions, body)).status]).toEqual([body, 400]);
    for (const rest of ['', '/x', '/x/notes', '/x/notes/1']) {
      const answer = await client.get(path(`/commits/absent/discussions${rest}`));
      expect([rest, answer.body]).toEqual([rest, { message: '404 Commit Not Found' }]);
    }
    expect((await client.post(`${discussions}/absent/notes`, { body: 'x' })).body).toEqual({
      message: '404 Discussion Not Found',
    });
    expect((await client.get(discussions)).body).toHaveLength(1);
    expect(await kindsOf(project.id)).toEqual(['note.created']);
  });

  it('finds a discussion only under its own commit, and a comment only in its own discussion', async () => {
    const { client, discussions, path, sha } = await setUp();
    const { id, notes } = (await client.post(discussions, { body: 'Here' })).body;
    const { id: other } = (await client.post(discussions, { body: 'There' })).body;
    const elsewhere = path(`/commits/${sha}~1/discussions`);
    expect((await client.get(elsewhere)).body).toEqual([]);
    const strange = [`${elsewhere}/${id}`, `${discussions}/${other}`].map((url) => `${url}/notes/${notes[0].id}`);
    for (const url of [`${elsewhere}/${id}`, `${elsewhere}/${id}/notes`, ...strange]) {
      expect([url, (await client.get(url)).status]).toEqual([url, 404]);
    }
    expect((await client.post(`${elsewhere}/${id}/notes`, { body: 'x' })).status).toBe(404);
    for (const url of strange) {
      expect((await client.put(url, { body: 'x' })).status).toBe(404);
      expect((await client.delete(url)).status).toBe(404);
    }
    expect((await client.get(`${discussions}/${id}`)).body).toMatchObject({ notes: [{ body: 'Here' }] });
  });

  it('requires the right to read the code and to comment, and lets authors edit their own notes', async () => {
    const { client, discussions, owner, project } = await setUp();
    const [guest, reporter, stranger] = [await app().make.user(), await app().make.user(), await app().make.user()];
    await app().make.projectMember(project, guest, 10);
    await app().make.projectMember(project, reporter, 20);
    const { id, notes } = (await client.post(discussions, { body: 'Mine' })).body;
    const one = `${discussions}/${id}`;
    const note = `${one}/notes/${notes[0].id}`;
    const statuses = async (as: typeof client) => [
      ...(await Promise.all([discussions, one, `${one}/notes`, note].map(async (url) => (await as.get(url)).status))),
      (await as.post(discussions, { body: 'x' })).status,
      (await as.post(`${one}/notes`, { body: 'x' })).status,
      (await as.put(note, { body: 'Not mine' })).status,
      (await as.delete(note)).status,
    ];
    const all = (status: number) => Array.from({ length: 4 }, () => status);
    expect(await statuses(app().anonymous)).toEqual([...all(404), ...all(401)]);
    expect(await statuses(app().as(stranger))).toEqual([...all(404), ...all(404)]);
    // Guests of a private project cannot read the code.
    expect(await statuses(app().as(guest))).toEqual([...all(403), ...all(403)]);
    expect(await statuses(app().as(reporter))).toEqual([...all(200), 201, 201, 403, 403]);
    expect(await statuses(app().as(reporter, ['read_api']))).toEqual([...all(200), ...all(403)]);
    await app().as(owner).put(`/projects/${project.id}`, { visibility: 'public' });
    expect(await statuses(app().anonymous)).toEqual([...all(200), ...all(401)]);
    expect(await statuses(app().as(stranger))).toEqual([...all(200), 201, 201, 403, 403]);
    expect((await client.get(note)).body.body).toBe('Mine');
    // Maintainers may delete the notes of others but not edit them.
    const { id: theirs, notes: others } = (await app().as(reporter).post(discussions, { body: 'Theirs' })).body;
    const url = `${discussions}/${theirs}/notes/${others[0].id}`;
    expect((await client.put(url, { body: 'x' })).status).toBe(403);
    expect((await client.delete(url)).status).toBe(204);
    await client.post(`/projects/${project.id}/archive`);
    expect(await statuses(client)).toEqual([...all(200), ...all(403)]);
  });

  it('lets only owners set a creation date', async () => {
    const { client, discussions, project } = await setUp();
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    const created_at = '2020-01-02T03:04:05.000Z';
    const old = await client.post(discussions, { body: 'Old', created_at });
    expect(old.body.notes[0].created_at).toBe(created_at);
    const now = await app().as(developer).post(`${discussions}/${old.body.id}/notes`, { body: 'New', created_at });
    expect(now.body.created_at > created_at).toBe(true);
  });

  it('serves a third-party client', async () => {
    const { owner, project, sha, tree } = await setUp();
    const parent = await runGit(tree, 'rev-parse', 'HEAD~1');
    const api = new Gitlab({ host: app().url, token: await app().tokenOf(owner) });
    const discussion = await api.CommitDiscussions.create(project.id, sha, 'Begun', {
      position: { positionType: 'text', baseSha: parent, startSha: parent, headSha: sha, newPath: 'a', newLine: '2' },
    });
    expect(discussion).toMatchObject({ individual_note: false, notes: [{ position: { new_path: 'a', new_line: 2 } }] });
    const answer = await api.CommitDiscussions.addNote(project.id, sha, discussion.id, 'Answer');
    const shown = await api.CommitDiscussions.show(project.id, sha, discussion.id);
    expect(shown.notes?.map(({ body }) => body)).toEqual(['Begun', 'Answer']);
    await api.CommitDiscussions.editNote(project.id, sha, discussion.id, answer.id, { body: 'Edited' });
    await api.CommitDiscussions.removeNote(project.id, sha, discussion.id, discussion.notes?.[0]?.id ?? 0);
    const [left] = await api.CommitDiscussions.all(project.id, sha);
    expect(left?.notes?.map(({ body }) => body)).toEqual(['Edited']);
  });
});
