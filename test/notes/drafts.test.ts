import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { untilBlocked } from '../support/locks.ts';
import { commit, lines, makeReview } from './support.ts';

const app = useApp();

const setUp = async () => {
  const review = await makeReview(app());
  return { ...review, drafts: `${review.at}/draft_notes` };
};

describe('draft notes', () => {
  it('are created, read, listed, changed and deleted by their author', async () => {
    const { owner, drafts, people, id, on, at } = await setUp();
    const made = await owner.post(drafts, { note: 'draft' });
    expect(made).toMatchObject({
      status: 201,
      body: {
        id: expect.any(Number),
        author_id: people.owner.id,
        merge_request_id: id,
        resolve_discussion: false,
        discussion_id: null,
        note: 'draft',
        commit_id: null,
        line_code: null,
        position: null,
      },
    });
    const one = `${drafts}/${made.body.id}`;
    expect((await owner.get(one)).body).toEqual(made.body);
    const placed = await owner.post(drafts, { note: 'on a line', position: on({ new_line: 10 }) });
    expect(placed.body).toMatchObject({ line_code: expect.stringMatching(/_11_10$/), position: { new_line: 10 } });
    expect((await owner.get(`${drafts}?per_page=1&page=2`)).body).toEqual([placed.body]);
    expect((await owner.put(one, { note: 'changed' })).body.note).toBe('changed');
    const moved = await owner.put(`${drafts}/${placed.body.id}`, { position: on({ old_line: 10 }) });
    expect(moved.body).toMatchObject({ note: 'on a line', position: { old_line: 10, new_line: null } });
    for (const bad of [
      { note: ' ' },
      { note: 'x'.repeat(1_000_001) },
      { note: 'x', position: on({ new_line: 3 }) },
      { note: 'x', resolve_discussion: true },
      { note: 'x', commit_id: 'f'.repeat(40) },
      {},
    ]) {
      expect((await owner.post(drafts, bad)).status).toBe(400);
    }
    expect((await owner.put(one, {})).status).toBe(400);
    expect((await owner.post(drafts, { note: 'x', in_reply_to_discussion_id: '0'.repeat(40) })).status).toBe(404);
    expect((await owner.delete(one)).status).toBe(204);
    expect((await owner.get(one)).status).toBe(404);
    expect((await owner.get(`${at}/notes`)).body).toEqual([]);
  });

  it('are published as they are by then, if they are changed at the same moment', async () => {
    const { owner, drafts, at } = await setUp();
    const { id } = (await owner.post(drafts, { note: 'old' })).body;
    await owner.post(drafts, { note: 'other' });
    await app().settle();
    for (const path of [`${drafts}/${id}/publish`, `${drafts}/bulk_publish`]) {
      const again = path.includes('bulk') ? (await owner.post(drafts, { note: 'old' })).body.id : id;
      await app().settle();
      const published = await app()
        .hub.services.db.transaction()
        .execute(async (trx) => {
          await sql`update draft_notes set note = 'new', updated_at = now() where id = ${again}`.execute(trx);
          const answer = path.includes('bulk') ? owner.post(path) : owner.put(path);
          await untilBlocked(app());
          return { answer };
        });
      expect((await published.answer).status).toBe(204);
    }
    const { body } = await owner.get(`${at}/notes?sort=asc`);
    expect(body.map(({ body }: { readonly body: string }) => body)).toEqual(['new', 'other', 'new']);
    expect((await owner.get(drafts)).body).toEqual([]);
  });

  it('begin the review of a reviewer, and end it when they are published', async () => {
    const { owner, maintainer, drafts, at, people } = await setUp();
    const stateOf = async () => (await owner.get(`${at}/reviewers`)).body[0].state;
    await owner.put(at, { reviewer_ids: [people.maintainer.id] });
    await owner.post(drafts, { note: 'Not a reviewer' });
    expect(await stateOf()).toBe('unreviewed');
    await maintainer.post(drafts, { note: 'One' });
    expect(await stateOf()).toBe('review_started');
    expect((await maintainer.post(`${drafts}/bulk_publish`)).status).toBe(204);
    expect(await stateOf()).toBe('reviewed');
    // A verdict stays.
    await maintainer.post(`${at}/approve`);
    await maintainer.post(drafts, { note: 'Two' });
    expect(await stateOf()).toBe('approved');
  });

  it('are visible to nobody else', async () => {
    const { owner, maintainer, stranger, drafts, people, project } = await setUp();
    await app().make.projectMember(project, people.stranger, 30);
    const { body: draft } = await stranger.post(drafts, { note: 'mine' });
    const one = `${drafts}/${draft.id}`;
    for (const other of [owner, maintainer, app().as(app().root)]) {
      expect((await other.get(drafts)).body).toEqual([]);
      expect((await other.get(one)).status).toBe(404);
      expect((await other.put(one, { note: 'x' })).status).toBe(404);
      expect((await other.put(`${one}/publish`)).status).toBe(404);
      expect((await other.delete(one)).status).toBe(404);
      expect((await other.post(`${drafts}/bulk_publish`)).status).toBe(204);
    }
    for (const path of [drafts, one]) expect([401, 404]).toContain((await app().anonymous.get(path)).status);
    expect((await stranger.get(one)).body).toEqual(draft);
  });

  it('are published one by one or all at once, with replies that resolve', async () => {
    const { owner, developer, at, drafts, on, head, path } = await setUp();
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'Why?' });
    const { body: first } = await developer.post(drafts, { note: 'first' });
    await developer.post(drafts, { note: 'on a line', position: on({ new_line: 10 }) });
    const reply = { note: 'done', in_reply_to_discussion_id: thread.id, resolve_discussion: true };
    expect((await developer.post(drafts, reply)).body).toMatchObject({
      discussion_id: thread.id,
      resolve_discussion: true,
    });
    await developer.post(drafts, { note: 'in a commit', commit_id: head });
    expect((await developer.put(`${drafts}/${first.id}/publish`)).status).toBe(204);
    expect((await owner.get(`${at}/notes`)).body).toMatchObject([
      { body: 'first', type: 'DiscussionNote' },
      { body: 'Why?' },
    ]);
    expect((await developer.put(`${drafts}/${first.id}/publish`)).status).toBe(404);
    // A push in between: the comment moves to the new version.
    const content = `first\n${lines(20, { 10: 'ten' })}`;
    await commit(owner, path, 'feature', [{ action: 'update', file_path: 'a.txt', content }]);
    await app().settle();
    expect((await developer.post(`${drafts}/bulk_publish`)).status).toBe(204);
    await app().settle();
    expect((await developer.get(drafts)).body).toEqual([]);
    const { body: discussions } = await owner.get(`${at}/discussions`);
    const comments = discussions.flatMap((each: { notes: { system: boolean }[] }) =>
      each.notes.filter((n) => !n.system),
    );
    expect(comments).toMatchObject([
      { body: 'Why?', resolved: true },
      { body: 'done', resolved: true, discussion_id: thread.id },
      { body: 'first', resolved: false },
      { body: 'on a line', type: 'DiffNote', position: { new_line: 11 } },
      { body: 'in a commit', commit_id: head },
    ]);
  });

  it('run their quick actions when they are published', async () => {
    const { owner, developer, people, at, drafts } = await setUp();
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'Why?' });
    await developer.post(drafts, { note: `Because\n/label ~one\n/assign @${people.developer.username}` });
    await developer.post(drafts, {
      note: `/label ~two\n/assign @${people.owner.username}`,
      in_reply_to_discussion_id: thread.id,
      resolve_discussion: true,
    });
    expect((await owner.get(at)).body).toMatchObject({ labels: [], assignees: [] });
    expect((await developer.post(`${drafts}/bulk_publish`)).status).toBe(204);
    const { body } = await owner.get(at);
    expect(body.labels).toEqual(['one', 'two']);
    expect(body.assignees.map((each: { id: number }) => each.id).sort()).toEqual(
      [people.developer.id, people.owner.id].sort(),
    );
    const notes = (await owner.get(`${at}/notes?activity_filter=only_comments`)).body;
    expect(notes).toMatchObject([
      { body: 'Because', author: { id: people.developer.id } },
      { body: 'Why?', resolved: true },
    ]);
  });

  it('take no quick action that their author may not do, or that cannot wait', async () => {
    const { owner, developer, reporter, at, drafts } = await setUp();
    expect(await reporter.post(drafts, { note: 'x\n/label ~one' })).toMatchObject({
      status: 403,
      body: { message: '403 Forbidden - the quick action /label is not allowed' },
    });
    const { body: draft } = await developer.post(drafts, { note: 'x' });
    for (const name of ['approve', 'unapprove', 'merge', 'rebase', 'submit_review']) {
      const message = `400 Bad request - the quick action /${name} is not allowed in draft notes`;
      expect(await developer.post(drafts, { note: `x\n/${name}` })).toMatchObject({ status: 400, body: { message } });
      expect(await developer.put(`${drafts}/${draft.id}`, { note: `/${name}` })).toMatchObject({ status: 400 });
    }
    expect((await owner.get(at)).body).toMatchObject({ labels: [], state: 'opened' });
    expect((await developer.get(drafts)).body).toEqual([draft]);
  });

  it('publish all or none', async () => {
    const { owner, at, drafts, developer } = await setUp();
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'Why?' });
    await developer.post(drafts, { note: 'kept' });
    await developer.post(drafts, { note: 'reply', in_reply_to_discussion_id: thread.id });
    await owner.delete(`${at}/discussions/${thread.id}/notes/${thread.notes[0].id}`);
    expect((await developer.post(`${drafts}/bulk_publish`)).status).toBe(404);
    expect((await owner.get(`${at}/notes`)).body).toEqual([]);
    expect((await developer.get(drafts)).body).toHaveLength(2);
  });

  it('are bounded in number', async () => {
    const { owner, drafts, people, id } = await setUp();
    const many = Array.from({ length: 499 }, (_, index) => ({
      merge_request_id: id,
      author_id: people.owner.id,
      note: `${index}`,
    }));
    await app().hub.services.db.insertInto('draft_notes').values(many).execute();
    await app().settle();
    const { answers } = await app()
      .hub.services.db.transaction()
      .execute(async (trx) => {
        await sql`lock table draft_notes in share mode`.execute(trx);
        const answers = Promise.all([owner.post(drafts, { note: 'x' }), owner.post(drafts, { note: 'x' })]);
        await untilBlocked(app(), 2);
        return { answers };
      });
    const [made, refused] = (await answers).sort((left, right) => left.status - right.status);
    expect(made?.status).toBe(201);
    expect(refused).toMatchObject({
      status: 400,
      body: { message: '400 Bad request - at most 500 draft notes are allowed' },
    });
  });

  it('are for those who can comment', async () => {
    const { owner, reporter, stranger, drafts, at } = await setUp();
    expect((await stranger.post(drafts, { note: 'x' })).status).toBe(404);
    expect((await app().anonymous.post(drafts, { note: 'x' })).status).toBe(401);
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'Why?' });
    const reply = { note: 'x', in_reply_to_discussion_id: thread.id };
    expect((await reporter.post(drafts, { ...reply, resolve_discussion: true })).status).toBe(403);
    expect((await reporter.post(drafts, reply)).status).toBe(201);
  });
});
