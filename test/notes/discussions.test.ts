import { describe, expect, it } from 'vitest';
import { Receiver } from '../hooks/receiver.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { until } from '../support/until.ts';
import { commit, makeReview } from './support.ts';

const app = useApp();

const sha1 = async (text: string) =>
  Buffer.from(await crypto.subtle.digest('SHA-1', new TextEncoder().encode(text))).toString('hex');

const eventsOf = async (projectId: number, like: string) =>
  app()
    .hub.services.db.selectFrom('events')
    .select(['kind', 'payload', 'min_access_level'])
    .where('project_id', '=', projectId)
    .where('kind', 'like', like)
    .orderBy('id')
    .execute();

describe.each([
  ['issues', 'Issue'],
  ['merge_requests', 'MergeRequest'],
])('discussions on %s', (path, type) => {
  const setUp = async () => {
    if (path === 'merge_requests') return makeReview(app());
    const scene = await makeScene(app());
    await scene.owner.post(`${scene.path}/issues`, { title: 'i' });
    return { ...scene, at: `${scene.path}/issues/1` };
  };

  it('are started, answered, changed and deleted', async () => {
    const { owner, reporter, people, at } = await setUp();
    const all = `${at}/discussions`;
    const begun = await reporter.post(all, { body: 'Why?' });
    expect(begun).toMatchObject({
      status: 201,
      body: {
        id: expect.stringMatching(/^[0-9a-f]{40}$/),
        individual_note: false,
        notes: [
          {
            type: 'DiscussionNote',
            body: 'Why?',
            author: { id: people.reporter.id },
            noteable_type: type,
            noteable_iid: 1,
            resolvable: type === 'MergeRequest',
            resolved: false,
            suggestions: [],
          },
        ],
      },
    });
    const one = `${all}/${begun.body.id}`;
    const dated = { body: 'Because.', created_at: '2020-01-01T00:00:00Z' };
    const answer = await owner.post(`${one}/notes`, dated);
    expect(answer).toMatchObject({
      status: 201,
      body: {
        body: 'Because.',
        type: 'DiscussionNote',
        discussion_id: begun.body.id,
        created_at: '2020-01-01T00:00:00.000Z',
      },
    });
    const note = `${one}/notes/${answer.body.id}`;
    expect((await reporter.get(note)).body).toEqual(answer.body);
    expect((await reporter.put(note, { body: 'x' })).status).toBe(403);
    const changed = await owner.put(note, { body: 'Therefore.' });
    expect(changed).toMatchObject({ status: 200, body: { body: 'Therefore.' } });
    expect((await reporter.get(`${one}/notes`)).body).toEqual([begun.body.notes[0], changed.body]);
    expect((await reporter.get(one)).body).toEqual({ ...begun.body, notes: [begun.body.notes[0], changed.body] });
    expect((await owner.delete(note)).status).toBe(204);
    expect((await owner.get(note)).status).toBe(404);
    expect((await owner.get(`${all}/${'0'.repeat(40)}`)).body).toEqual({ message: '404 Discussion Not Found' });
    expect((await owner.post(`${all}/${'0'.repeat(40)}/notes`, { body: 'x' })).status).toBe(404);
    const late = await owner.post(all, { body: 'Old', created_at: '2020-01-01T00:00:00Z' });
    expect(late.body.notes[0].created_at).toBe('2020-01-01T00:00:00.000Z');
  });

  it('include single comments and system notes, page by page', async () => {
    const { owner, at } = await setUp();
    const { body: single } = await owner.post(`${at}/notes`, { body: 'single' });
    await owner.put(at, { title: 'Another' });
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'thread' });
    await owner.post(`${at}/discussions/${thread.id}/notes`, { body: 'reply' });
    const all = await owner.get(`${at}/discussions`);
    expect(
      all.body.map((each: { individual_note: boolean; notes: { body: string; system: boolean }[] }) => [
        each.individual_note,
        each.notes.map(({ system }) => system),
      ]),
    ).toEqual([
      [true, [false]],
      [true, [true]],
      [false, [false, false]],
    ]);
    expect((await owner.get(`${at}/discussions?per_page=1&page=3`)).body).toEqual([all.body[2]]);
    // A reply makes a discussion of a single comment. Nobody replies to a system note.
    expect((await owner.post(`${at}/discussions/${single.discussion_id}/notes`, { body: 'x' })).status).toBe(201);
    expect((await owner.get(`${at}/discussions/${single.discussion_id}`)).body.individual_note).toBe(false);
    expect((await owner.post(`${at}/discussions/${all.body[1].id}/notes`, { body: 'x' })).status).toBe(404);
    expect((await owner.get(`${at}`)).body.user_notes_count).toBe(4);
  });

  it('are hidden from strangers, and internal ones from Guests', async () => {
    const { owner, guest, reporter, stranger, at } = await setUp();
    const secret = await reporter.post(`${at}/discussions`, { body: 'secret', internal: true });
    expect(secret.body.notes[0].internal).toBe(true);
    const one = `${at}/discussions/${secret.body.id}`;
    const reply = await owner.post(`${one}/notes`, { body: 'also secret' });
    expect(reply.body.internal).toBe(true);
    expect((await guest.post(`${at}/discussions`, { body: 'x', internal: true })).status).toBe(403);
    for (const who of [guest, stranger, app().anonymous]) {
      expect([403, 404]).toContain((await who.get(one)).status);
      expect([401, 403, 404]).toContain((await who.post(`${one}/notes`, { body: 'x' })).status);
      expect([401, 403, 404]).toContain((await who.delete(`${one}/notes/${reply.body.id}`)).status);
    }
    expect((await owner.post(`${at}/discussions`, { body: ' ' })).body).toEqual({
      message: { note: ["can't be blank"] },
    });
    expect((await owner.post(`${at}/discussions`, { body: 'x'.repeat(1_000_001) })).status).toBe(400);
  });
});

describe('positions', () => {
  it('are on added, removed and unchanged lines, also sent as strings', async () => {
    const { owner, at, on, refs } = await makeReview(app());
    const path = await sha1('a.txt');
    const cases: [Record<string, unknown>, string][] = [
      [{ new_line: 10 }, `${path}_11_10`],
      [{ old_line: 10 }, `${path}_10_10`],
      [{ old_line: 3, new_line: 3 }, `${path}_3_3`],
      [{ old_line: '20', new_line: '20' }, `${path}_20_20`],
    ];
    for (const [lines, line_code] of cases) {
      const made = await owner.post(`${at}/discussions`, { body: 'x', position: on(lines) });
      expect(made).toMatchObject({
        status: 201,
        body: {
          individual_note: false,
          notes: [
            {
              type: 'DiffNote',
              resolvable: true,
              position: {
                position_type: 'text',
                ...refs,
                old_path: 'a.txt',
                new_path: 'a.txt',
                old_line: lines.old_line === undefined ? null : Number(lines.old_line),
                new_line: lines.new_line === undefined ? null : Number(lines.new_line),
              },
            },
          ],
        },
      });
      const row = await app()
        .hub.services.db.selectFrom('notes')
        .select('line_code')
        .where('id', '=', made.body.notes[0].id)
        .executeTakeFirstOrThrow();
      expect(row.line_code).toBe(line_code);
    }
    // The file is new: all of its lines are added. Either path may be left out.
    const { old_path: _, ...added } = on({ new_path: 'b.txt', new_line: 2 });
    expect((await owner.post(`${at}/discussions`, { body: 'x', position: added })).status).toBe(201);
  });

  it('may name the head of the target branch as base and start, as linters do', async () => {
    const { owner, at, on, refs, head, path } = await makeReview(app());
    const action = { action: 'create', file_path: 'later.txt', content: 'later' } as const;
    const old = await commit(owner, path, 'main', [action]);
    const tip = await commit(owner, path, 'main', [{ ...action, file_path: 'latest.txt' }]);
    const place = (sha: string, more: Record<string, unknown> = {}) =>
      owner.post(`${at}/discussions`, {
        body: 'x',
        position: on({ base_sha: sha, start_sha: sha, new_line: 10, old_path: undefined, ...more }),
      });
    const made = await place(tip);
    expect([made.status, made.body.notes?.[0].position]).toMatchObject([
      201,
      { ...refs, old_line: null, new_line: 10 },
    ]);
    expect((await place(tip, { new_line: 12, old_line: 12 })).status).toBe(201);
    for (const refused of [await place(old), await place(head), await place(tip, { start_sha: old })]) {
      expect([refused.status, refused.body.message]).toEqual([400, expect.stringMatching(/is invalid/)]);
    }
    expect((await owner.get(`${at}/discussions`)).body).toHaveLength(2);
    // The head of the target branch at the time of the version stays valid when the target moves on.
    const next = await commit(owner, path, 'feature', [{ ...action, file_path: 'c.txt' }]);
    await app().settle();
    await commit(owner, path, 'main', [{ ...action, file_path: 'last.txt' }]);
    const later = await place(tip, { head_sha: next });
    expect([later.status, later.body.notes?.[0].position]).toMatchObject([
      201,
      { base_sha: refs.base_sha, start_sha: tip, head_sha: next },
    ]);
  });

  it('refuse lines, files and versions that are not in the diff', async () => {
    const { owner, at, on, refs, head } = await makeReview(app());
    const wrongLine = `400 Bad request - Note {:line_code=>["can't be blank", "must be a valid line code"]}`;
    const other = (sha: string) => `${sha.slice(0, 39)}${sha.endsWith('0') ? '1' : '0'}`;
    const cases: [Record<string, unknown>, string | RegExp][] = [
      [{}, wrongLine],
      [{ new_line: 3 }, wrongLine],
      [{ old_line: 3 }, wrongLine],
      [{ old_line: 3, new_line: 4 }, wrongLine],
      [{ old_line: 21, new_line: 21 }, wrongLine],
      [{ new_line: 2 ** 31 - 1 }, wrongLine],
      [{ old_path: 'README.md', new_path: 'README.md', new_line: 1 }, wrongLine],
      [{ old_path: '../../etc/passwd', new_path: '../../etc/passwd', new_line: 1 }, wrongLine],
      [{ old_path: ':(top)*', new_path: ':(top)*', new_line: 1 }, wrongLine],
      [{ old_path: '', new_path: '', new_line: 1 }, /is incomplete/],
      [{ new_line: 10, head_sha: other(head) }, /is invalid/],
      [{ new_line: 10, base_sha: other(refs.base_sha) }, /is invalid/],
      [{ new_line: 10, start_sha: other(refs.start_sha) }, /is invalid/],
      [{ new_line: 10, head_sha: '--output=x' }, /is invalid/],
      [{ position_type: 'image', x: 1 }, /is incomplete/],
      [{ position_type: 'image', width: 1, height: 1, x: 1, y: 1, new_line: 10 }, /is invalid/],
      [{ position_type: 'file', new_line: 10 }, /is invalid/],
      [{ new_line: 10, x: 1 }, /is invalid/],
      [{ new_line: 10, line_range: { start: { line_code: 'x', type: 'new' }, end: { line_code: 'x' } } }, /is invalid/],
      [{ new_line: 10, line_range: { start: { new_line: 3 }, end: { new_line: 10 } } }, /is invalid/],
    ];
    for (const [lines, message] of cases) {
      const refused = await owner.post(`${at}/discussions`, { body: 'x', position: on(lines) });
      expect([refused.status, refused.body.message]).toEqual([
        400,
        typeof message === 'string' ? message : expect.stringMatching(message),
      ]);
    }
    for (const bad of [{ new_line: 0 }, { new_line: 'x' }, { position_type: 'video' }, { base_sha: undefined }]) {
      expect((await owner.post(`${at}/discussions`, { body: 'x', position: on(bad) })).status).toBe(400);
    }
    expect((await owner.get(`${at}/discussions`)).body).toEqual([]);
  });

  it('may cover several lines, a whole file, a place in a picture or a commit', async () => {
    const { owner, at, on, head } = await makeReview(app());
    const path = await sha1('b.txt');
    const range = { start: { new_line: 1, type: 'new' }, end: { line_code: `${path}_0_2`, new_line: 2, type: 'new' } };
    const inNew = { old_path: 'b.txt', new_path: 'b.txt' };
    const several = await owner.post(`${at}/discussions`, {
      body: 'x',
      position: on({ ...inNew, new_line: 2, line_range: range }),
    });
    expect(several.body.notes[0].position.line_range).toEqual({
      start: { line_code: `${path}_0_1`, type: 'new', old_line: null, new_line: 1 },
      end: { line_code: `${path}_0_2`, type: 'new', old_line: null, new_line: 2 },
    });
    const file = await owner.post(`${at}/discussions`, { body: 'x', position: on({ position_type: 'file' }) });
    expect(file.body.notes[0]).toMatchObject({
      type: 'DiffNote',
      position: { position_type: 'file', new_path: 'a.txt' },
    });
    const place = { position_type: 'image', width: 100, height: 50, x: 1, y: 2 };
    const picture = await owner.post(`${at}/discussions`, { body: 'x', position: on(place) });
    expect(picture.body.notes[0].position).toMatchObject(place);
    const inCommit = await owner.post(`${at}/discussions`, {
      body: 'x',
      commit_id: head,
      position: on({ new_line: 10 }),
    });
    expect(inCommit).toMatchObject({ status: 201, body: { notes: [{ commit_id: head, position: { new_line: 10 } }] } });
    expect((await owner.post(`${at}/discussions`, { body: 'x', commit_id: 'f'.repeat(40) })).status).toBe(400);
    const whole = await owner.post(`${at}/discussions`, { body: 'x', commit_id: head });
    expect(whole.body.notes[0]).toMatchObject({ type: 'DiscussionNote', commit_id: head });
  });

  it('have the same parameters in threads and in drafts', async () => {
    const { owner, at, on } = await makeReview(app());
    const end = { line_code: `${await sha1('a.txt')}_9_9`, type: 'expanded', old_line: 9, new_line: 9 };
    const range = {
      start: end,
      end: { ...end, line_code: `${await sha1('a.txt')}_11_11`, old_line: 11, new_line: 11 },
    };
    const text = on({ old_line: 11, new_line: 11, line_range: range });
    const image = on({ position_type: 'image', width: 4, height: 3, x: 2, y: 1 });
    const { body: draft } = await owner.post(`${at}/draft_notes`, { note: 'x' });
    for (const position of [text, image]) {
      const thread = await owner.post(`${at}/discussions`, { body: 'x', position });
      expect(thread.body.notes[0].position).toMatchObject(position);
      const made = await owner.post(`${at}/draft_notes`, { note: 'x', position });
      expect(made.body.position).toEqual(thread.body.notes[0].position);
      const changed = await owner.put(`${at}/draft_notes/${draft.id}`, { position });
      expect(changed.body).toMatchObject({ position: made.body.position, line_code: made.body.line_code });
    }
  });

  it('go to hooks with the part of the diff', async () => {
    const { owner, at, path, on } = await makeReview(app());
    const settings = { allow_local_requests_from_web_hooks_and_services: true };
    await app().as(app().root).put('/application/settings', settings);
    await using receiver = await Receiver.start();
    await owner.post(`${path}/hooks`, { url: receiver.url, note_events: true, push_events: false });
    const made = await owner.post(`${at}/discussions`, { body: 'Why ten?', position: on({ new_line: 10 }) });
    await owner.post(`${at}/discussions/${made.body.id}/notes`, { body: 'Why not?' });
    await until('both comments', () => receiver.received.length === 2);
    const bodies = receiver.received.map(({ body }) => body.object_attributes);
    for (const body of bodies) {
      expect(body).toMatchObject({
        type: 'DiffNote',
        discussion_id: made.body.id,
        position: { new_line: 10, new_path: 'a.txt' },
        original_position: { new_line: 10 },
        line_code: `${await sha1('a.txt')}_11_10`,
        st_diff: {
          new_path: 'a.txt',
          new_file: false,
          diff: '@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n',
        },
      });
    }
    expect(bodies.map(({ note }) => note).sort()).toEqual(['Why not?', 'Why ten?']);
    // A new file has no old lines.
    const position = on({ old_path: 'b.txt', new_path: 'b.txt', new_line: 1 });
    await owner.post(`${at}/discussions`, { body: 'Why new?', position });
    await until('the comment on a new file', () => receiver.received.length === 3);
    expect(receiver.received[2]?.body.object_attributes).toMatchObject({
      line_code: `${await sha1('b.txt')}_0_1`,
      st_diff: { new_path: 'b.txt', new_file: true, diff: expect.stringMatching(/^@@ -0,0 \+1.* @@\n\+/) },
    });
  });
});

describe('resolving', () => {
  it('is for Developers and the author of the merge request', async () => {
    const { owner, developer, reporter, guest, stranger, at, project } = await makeReview(app());
    const { body: thread } = await reporter.post(`${at}/discussions`, { body: 'x' });
    const one = `${at}/discussions/${thread.id}`;
    expect((await reporter.put(one, { resolved: true })).status).toBe(403);
    expect([403, 404]).toContain((await guest.put(one, { resolved: true })).status);
    expect((await stranger.put(one, { resolved: true })).status).toBe(404);
    expect((await app().anonymous.put(one, { resolved: true })).status).toBe(401);
    expect((await owner.put(one, {})).status).toBe(400);
    const rights = async (client: typeof owner) => {
      const query = `query ($id: NoteID!) { note(id: $id) { userPermissions { createNote resolveNote } } }`;
      return (await client.graphql(query, { id: `gid://gitlab/Note/${thread.notes[0].id}` })).data.note
        ?.userPermissions;
    };
    expect(await rights(developer)).toEqual({ createNote: true, resolveNote: true });
    expect(await rights(reporter)).toEqual({ createNote: true, resolveNote: false });
    expect(await rights(stranger)).toBeUndefined();
    const resolved = await developer.put(`${one}?resolved=true`);
    expect(resolved.body.notes[0]).toMatchObject({
      resolved: true,
      resolved_by: { username: expect.any(String) },
      resolved_at: expect.any(String),
    });
    // Repeating it changes nothing.
    expect((await owner.put(one, { resolved: true })).body).toEqual(resolved.body);
    const activity = await owner.get(`${at}/notes?activity_filter=only_activity`);
    expect(activity.body.map(({ body }: { body: string }) => body)).toEqual(['resolved all threads']);
    // A reply leaves it resolved. A single comment cannot be resolved.
    expect((await owner.post(`${one}/notes`, { body: 'y' })).body).toMatchObject({ resolved: true });
    const { body: single } = await owner.post(`${at}/notes`, { body: 'single' });
    expect((await owner.put(`${at}/discussions/${single.discussion_id}`, { resolved: true })).status).toBe(400);
    expect((await owner.put(one, { resolved: false })).body.notes).toMatchObject([
      { resolved: false, resolved_by: null, resolved_at: null },
      { resolved: false },
    ]);
    await app().settle();
    const events = await eventsOf(project.id, 'discussion.%');
    expect(events).toMatchObject([
      {
        kind: 'discussion.resolved',
        payload: { discussion_id: thread.id, note_ids: [thread.notes[0].id], unresolved_discussions: 0 },
      },
      { kind: 'discussion.unresolved', payload: { discussion_id: thread.id, resolved_by_id: null } },
    ]);
  });

  it('of one comment leaves the thread open until all are', async () => {
    const { owner, at } = await makeReview(app());
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'x' });
    const one = `${at}/discussions/${thread.id}`;
    const { body: reply } = await owner.post(`${one}/notes`, { body: 'y' });
    const first = `${one}/notes/${thread.notes[0].id}`;
    expect((await owner.put(first, { resolved: true })).body).toMatchObject({ id: thread.notes[0].id, resolved: true });
    expect((await owner.put(`${one}/notes/${reply.id}`, { resolved: true, body: 'x' })).status).toBe(400);
    expect((await owner.put(first, {})).status).toBe(400);
    expect((await owner.get(one)).body.notes.map(({ resolved }: { resolved: boolean }) => resolved)).toEqual([
      true,
      false,
    ]);
    expect((await owner.put(first, { resolved: false })).body.resolved).toBe(false);
    const { body: single } = await owner.post(`${at}/notes`, { body: 'single' });
    const alone = `${at}/discussions/${single.discussion_id}/notes/${single.id}`;
    expect((await owner.put(alone, { resolved: true })).status).toBe(400);
  });

  it('decides whether a merge request can be merged, where the project demands it', async () => {
    const demanding = { only_allow_merge_if_all_discussions_are_resolved: true };
    const { owner, at, project } = await makeReview(app(), demanding);
    const checks = async () => (await eventsOf(project.id, 'merge_request.checked')).length;
    const before = await checks();
    const status = async () => (await owner.get(at)).body.detailed_merge_status;
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'x' });
    expect(await status()).toBe('discussions_not_resolved');
    expect((await owner.get(at)).body.blocking_discussions_resolved).toBe(false);
    await owner.post(`${at}/discussions`, { body: 'y' });
    await owner.put(`${at}/discussions/${thread.id}`, { resolved: true });
    expect([await status(), await checks()]).toEqual(['discussions_not_resolved', before + 1]);
    const [, second] = (await owner.get(`${at}/discussions`)).body;
    await owner.delete(`${at}/discussions/${second.id}/notes/${second.notes[0].id}`);
    expect([await status(), await checks()]).toEqual(['mergeable', before + 2]);
    expect((await owner.get(at)).body.blocking_discussions_resolved).toBe(true);
  });
});

describe('counts of comments', () => {
  it('of a merge request leave out internal ones for those who cannot read them', async () => {
    const { owner, reporter, guest, stranger, project, at } = await makeReview(app(), { visibility: 'public' });
    await owner.post(`${at}/notes`, { body: 'For everybody' });
    await owner.post(`${at}/notes`, { body: 'For us', internal: true });
    const query = `query ($path: ID!) { project(fullPath: $path) {
      mergeRequest(iid: "1") { userNotesCount userDiscussionsCount } } }`;
    const read = async (client: Client) => {
      const { data } = await client.graphql(query, { path: project.path_with_namespace });
      const { userNotesCount, userDiscussionsCount } = data.project.mergeRequest;
      return [(await client.get(at)).body.user_notes_count, userNotesCount, userDiscussionsCount];
    };
    for (const client of [owner, reporter]) expect(await read(client)).toEqual([2, 2, 2]);
    for (const client of [guest, stranger, app().anonymous]) expect(await read(client)).toEqual([1, 1, 1]);
  });
});
