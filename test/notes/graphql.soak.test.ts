import { createClient } from 'graphql-sse';
import { afterEach, describe, expect, it } from 'vitest';
import { encodeCursor } from '#platform/cursor.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { countStatements } from '../support/statements.ts';
import { until } from '../support/until.ts';
import { commit, lines, makeReview } from './support.ts';

const app = useApp();
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

const DISCUSSIONS = `query ($path: ID!, $iid: String!) { project(fullPath: $path) { mergeRequest(iid: $iid) {
  discussions(first: 10) { count nodes {
    id replyId createdAt resolvable resolved resolvedAt resolvedBy { username }
    notes(first: 10) { nodes { body system systemNoteAction resolved discussion { id }
      position { filePath oldPath newPath oldLine newLine positionType width height x y
        diffRefs { baseSha startSha headSha } }
      suggestions { id fromLine toLine fromContent toContent applied commitId } } } } } } } }`;

const setUp = async () => {
  const review = await makeReview(app());
  const noteableId = `gid://gitlab/MergeRequest/${review.id}`;
  const discussions = async (client = review.owner) => {
    const variables = { path: review.project.path_with_namespace, iid: '1' };
    const answer = await client.graphql(DISCUSSIONS, variables);
    expect(answer.errors).toBeUndefined();
    return answer.data.project.mergeRequest.discussions;
  };
  return { ...review, noteableId, discussions };
};

const diffNote = `mutation ($input: CreateDiffNoteInput!) { createDiffNote(input: $input) {
  note { id discussionId suggestions { id } discussion { id } } errors } }`;

const placed = (refs: { base_sha: string; start_sha: string; head_sha: string }, line: Record<string, unknown>) => ({
  baseSha: refs.base_sha,
  startSha: refs.start_sha,
  headSha: refs.head_sha,
  paths: { oldPath: 'a.txt', newPath: 'a.txt' },
  ...line,
});

describe('discussions over GraphQL', () => {
  it('are started on lines, answered, resolved and listed', async () => {
    const { owner, developer, refs, noteableId, discussions, people, project } = await setUp();
    const input = { noteableId, body: 'Why ten?', internal: false, position: placed(refs, { newLine: 10 }) };
    const made = await owner.graphql(diffNote, { input });
    expect(made.data.createDiffNote).toMatchObject({ errors: [], note: { suggestions: [] } });
    const { id } = made.data.createDiffNote.note.discussion;
    expect(id).toBe(`gid://gitlab/Discussion/${made.data.createDiffNote.note.discussionId}`);
    const reply = `mutation ($input: CreateNoteInput!) { createNote(input: $input) { note { discussion { id } } errors } }`;
    const replied = await developer.graphql(reply, { input: { noteableId, body: 'Why not?', discussionId: id } });
    expect(replied.data.createNote.note.discussion.id).toBe(id);
    const toggle = `mutation ($input: DiscussionToggleResolveInput!) { discussionToggleResolve(input: $input) {
      discussion { id resolved resolvedBy { username } } errors } }`;
    const resolved = await developer.graphql(toggle, { input: { id, resolve: true } });
    expect(resolved.data.discussionToggleResolve.discussion).toEqual({
      id,
      resolved: true,
      resolvedBy: { username: people.developer.username },
    });
    const found = await discussions();
    expect(found).toMatchObject({
      count: 2,
      nodes: [
        {
          id,
          replyId: id,
          resolvable: true,
          resolved: true,
          resolvedAt: expect.any(String),
          notes: {
            nodes: [
              {
                body: 'Why ten?',
                discussion: { id },
                position: {
                  filePath: 'a.txt',
                  oldLine: null,
                  newLine: 10,
                  positionType: 'text',
                  width: null,
                  diffRefs: { baseSha: refs.base_sha, startSha: refs.start_sha, headSha: refs.head_sha },
                },
              },
              { body: 'Why not?', position: { newLine: 10 } },
            ],
          },
        },
        {
          resolvable: false,
          resolved: false,
          resolvedAt: null,
          resolvedBy: null,
          notes: {
            nodes: [{ system: true, systemNoteAction: 'discussion', body: 'resolved all threads', position: null }],
          },
        },
      ],
    });
    // The system note is no discussion of users.
    const counted = await owner.graphql(
      'query ($path: ID!) { project(fullPath: $path) { mergeRequest(iid: "1") { userNotesCount userDiscussionsCount } } }',
      { path: project.path_with_namespace },
    );
    expect(counted.data.project.mergeRequest).toEqual({ userNotesCount: 2, userDiscussionsCount: 1 });
    const open = await owner.graphql(toggle, { input: { id, resolve: false } });
    expect(open.data.discussionToggleResolve.discussion).toMatchObject({ resolved: false, resolvedBy: null });
  });

  it('are started without a line and on pictures, with the rules of REST', async () => {
    const { owner, reporter, guest, stranger, refs, noteableId, discussions } = await setUp();
    const start = `mutation ($input: CreateDiscussionInput!) { createDiscussion(input: $input) {
      note { internal discussion { id resolvable } } errors } }`;
    const made = await reporter.graphql(start, { input: { noteableId, body: 'x', internal: true } });
    expect(made.data.createDiscussion.note).toMatchObject({ internal: true, discussion: { resolvable: true } });
    expect((await stranger.graphql(start, { input: { noteableId, body: 'x' } })).errors).toHaveLength(1);
    expect((await guest.graphql(start, { input: { noteableId, body: 'x' } })).errors).toHaveLength(1);
    const commitId = { noteableId: 'gid://gitlab/Commit/1', body: 'x' };
    expect(JSON.stringify(await owner.graphql(start, { input: commitId }))).toContain('comments on Commit');
    expect((await owner.graphql(start, { input: { noteableId, body: '' } })).data.createDiscussion).toEqual({
      note: null,
      errors: ["Note can't be blank"],
    });
    const picture = `mutation ($input: CreateImageDiffNoteInput!) { createImageDiffNote(input: $input) {
      note { internal position { positionType x y width height newLine } } errors } }`;
    const position = placed(refs, { width: 10, height: 20, x: 3, y: 4 });
    const pinned = await owner.graphql(picture, { input: { noteableId, body: 'x', position, internal: true } });
    expect(pinned.data.createImageDiffNote.note).toEqual({
      internal: true,
      position: { positionType: 'image', x: 3, y: 4, width: 10, height: 20, newLine: null },
    });
    const both = { noteableId, body: 'x', position: placed(refs, { oldLine: 3, newLine: 3 }) };
    expect((await owner.graphql(diffNote, { input: both })).data.createDiffNote.errors).toEqual([]);
    const wrong = placed(refs, { newLine: 3 });
    const refused = await owner.graphql(diffNote, {
      input: { noteableId, body: 'x', position: wrong, internal: true },
    });
    expect(JSON.stringify(refused)).toContain('must be a valid line code');
    expect((await discussions()).count).toBe(3);
    const toggle =
      'mutation ($id: DiscussionID!) { discussionToggleResolve(input: { id: $id, resolve: true }) { errors } }';
    const { id } = made.data.createDiscussion.note.discussion;
    for (const who of [stranger, guest, app().anonymous]) {
      expect((await who.graphql(toggle, { id })).errors).toHaveLength(1);
    }
    for (const bad of ['gid://gitlab/Discussion/', 'gid://gitlab/Note/1', 'a b', '', `${'0'.repeat(40)}`]) {
      expect((await owner.graphql(toggle, { id: bad })).errors).toHaveLength(1);
    }
  });

  it('of issues are listed too, and cannot be resolved', async () => {
    const { owner, path, project } = await setUp();
    await owner.post(`${path}/issues`, { title: 'i' });
    const { body: thread } = await owner.post(`${path}/issues/1/discussions`, { body: 'x' });
    const query = `query ($path: ID!) { project(fullPath: $path) { issue(iid: "1") {
      discussions(first: 1) { nodes { id resolvable notes { nodes { body } } } } } } }`;
    const found = await owner.graphql(query, { path: project.path_with_namespace });
    const id = `gid://gitlab/Discussion/${thread.id}`;
    expect(found.data.project.issue.discussions.nodes).toEqual([
      { id, resolvable: false, notes: { nodes: [{ body: 'x' }] } },
    ]);
    const toggle =
      'mutation ($id: DiscussionID!) { discussionToggleResolve(input: { id: $id, resolve: true }) { errors } }';
    expect((await owner.graphql(toggle, { id })).errors).toHaveLength(1);
  });

  it('with an id that imports brought twice are resolved only by their REST address', async () => {
    const { owner, at, project, path } = await setUp();
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'x' });
    await owner.post(`${path}/issues`, { title: 'i' });
    const { body: copy } = await owner.post(`${path}/issues/1/discussions`, { body: 'y' });
    await app()
      .hub.services.db.updateTable('notes')
      .set({ discussion_id: thread.id })
      .where('id', '=', copy.notes[0].id)
      .execute();
    const toggle =
      'mutation ($id: DiscussionID!) { discussionToggleResolve(input: { id: $id, resolve: true }) { errors } }';
    expect(JSON.stringify(await owner.graphql(toggle, { id: thread.id }))).toContain('several discussions');
    const query = `query ($path: ID!) { project(fullPath: $path) { issue(iid: "1") {
      discussions(first: 5) { nodes { notes(first: 5) { nodes { body discussion { notes(first: 5) { nodes { body } } } } } } } } } }`;
    const found = await owner.graphql(query, { path: project.path_with_namespace });
    expect(found.errors).toBeUndefined();
    expect(JSON.stringify(found.data)).not.toContain('"x"');
  });

  it('apply suggestions', async () => {
    const { owner, reporter, path, refs, noteableId, discussions } = await setUp();
    const body = '```suggestion\nTEN\n```';
    const input = { noteableId, body, position: placed(refs, { newLine: 10 }) };
    const made = await owner.graphql(diffNote, { input });
    const [{ id }] = made.data.createDiffNote.note.suggestions;
    expect((await discussions()).nodes[0].notes.nodes[0].suggestions).toEqual([
      { id, fromLine: 10, toLine: 10, fromContent: 'ten\n', toContent: 'TEN\n', applied: false, commitId: null },
    ]);
    const apply = `mutation ($ids: [SuggestionID!]!, $message: String) { applySuggestions(input: { ids: $ids, commitMessage: $message }) {
      suggestions { id applied commitId } errors } }`;
    expect((await reporter.graphql(apply, { ids: [id] })).errors).toHaveLength(1);
    const long = await owner.graphql(apply, { ids: [id], message: 'x'.repeat(65_537) });
    expect(long.data.applySuggestions).toEqual({
      suggestions: null,
      errors: ['Commit message is too long (maximum is 65536 characters)'],
    });
    const applied = await owner.graphql(apply, { ids: [id], message: 'In capitals' });
    const { body: tip } = await owner.get(`${path}/repository/commits/feature`);
    expect(tip.title).toBe('In capitals');
    expect(applied.data.applySuggestions).toEqual({
      suggestions: [{ id, applied: true, commitId: tip.id }],
      errors: [],
    });
  });

  it('run as many statements for many discussions as for one', async () => {
    const { at, owner, on, path, discussions } = await setUp();
    await owner.post(`${at}/discussions`, { body: 'x', position: on({ new_line: 10 }) });
    const once = await countStatements(app(), () => discussions());
    for (const line of [9, 11, 12]) {
      await owner.post(`${at}/discussions`, { body: 'x', position: on({ old_line: line, new_line: line }) });
    }
    expect(await countStatements(app(), () => discussions())).toBe(once);
    const list = () => owner.get(`${at}/discussions`);
    const all = await countStatements(app(), list);
    await owner.post(`${at}/discussions`, { body: 'y' });
    expect(await countStatements(app(), list)).toBe(all);
    // The lists agree after a push has moved them.
    await commit(owner, path, 'feature', [
      { action: 'update', file_path: 'a.txt', content: `0\n${lines(20, { 10: 'ten' })}` },
    ]);
    await app().settle();
    const moved = (await discussions()).nodes.map(
      ({ notes }: { notes: { nodes: { position: { newLine: number } | null }[] } }) =>
        notes.nodes[0]?.position?.newLine,
    );
    expect(moved).toEqual([11, 10, 12, 13, undefined, undefined]);
  });
});

describe('subscriptions to comments', () => {
  it('follow one merge request, for those who may read the comment', async () => {
    const { at, owner, people, noteableId, path } = await setUp();
    const member = await follow(people.owner, noteableId);
    const reporter = await follow(people.reporter, noteableId);
    const guest = await follow(people.stranger, noteableId);
    const { body: thread } = await owner.post(`${at}/discussions`, { body: 'x' });
    const { body: secret } = await owner.post(`${at}/discussions`, { body: 'secret', internal: true });
    await owner.put(`${at}/discussions/${thread.id}`, { resolved: true });
    await owner.put(`${at}/notes/${thread.notes[0].id}`, { body: 'y' });
    await owner.delete(`${at}/notes/${thread.notes[0].id}`);
    await owner.post(`${path}/issues`, { title: 'i' });
    await owner.post(`${path}/issues/1/notes`, { body: 'elsewhere' });
    await owner.post(`${at}/notes`, { body: 'last' });
    await until('the last comment', () => [member, reporter].every((each) => each.seen.some(([, b]) => b === 'last')));
    await until('the deletion', () => member.seen.some(([name]) => name === 'workItemNoteDeleted'));
    const ids = member.seen.map(([name, , id]) => `${name} ${id}`).sort();
    const first = `gid://gitlab/Note/${thread.notes[0].id}`;
    expect(ids).toEqual(
      [
        `workItemNoteCreated ${first}`,
        `workItemNoteCreated gid://gitlab/Note/${secret.notes[0].id}`,
        `workItemNoteCreated ${(await lastNote(owner, at)) ?? ''}`,
        `workItemNoteUpdated ${first}`,
        `workItemNoteUpdated ${first}`,
        `workItemNoteDeleted ${first}`,
      ].sort(),
    );
    expect(guest.seen).toEqual([]);
    expect(guest.failures.length).toBeGreaterThan(0);
  });
});

const lastNote = async (client: Client, at: string) =>
  `gid://gitlab/Note/${(await client.get(`${at}/notes`)).body[0].id}`;

const follow = async (user: TestUser, noteableId: string) => {
  const client = createClient({
    url: `${app().url}/api/graphql`,
    headers: await app().as(user).headers(),
    retryAttempts: 0,
  });
  closing.push(() => client.dispose());
  const stream = { seen: [] as [string, string | null, string][], failures: [] as unknown[] };
  for (const field of ['workItemNoteCreated', 'workItemNoteUpdated', 'workItemNoteDeleted']) {
    client.subscribe<Record<string, { noteId: string; note: { body: string } | null }>>(
      {
        query: `subscription ($id: NoteableID!) { ${field}(noteableId: $id, after: "${encodeCursor([0])}") {
          cursor at noteId note { body } } }`,
        variables: { id: noteableId },
      },
      {
        next: ({ data, errors }) => {
          const update = data?.[field];
          if (update) stream.seen.push([field, update.note?.body ?? null, update.noteId]);
          if (errors) stream.failures.push(errors);
        },
        error: (error) => void stream.failures.push(error),
        complete: () => {},
      },
    );
  }
  return stream;
};
