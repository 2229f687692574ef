import { describe, expect, it } from 'vitest';
import { suggestionMessage } from '#domains/notes/suggestions/message.ts';
import { parseSuggestions } from '#domains/notes/suggestions/parse.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { computedMs } from '../support/computed-ms.ts';
import { commit, lines, makeReview } from './support.ts';

const app = useApp();

const fence = (content: string, range = '') => `Better:\n\n\`\`\`suggestion${range}\n${content}\n\`\`\`\n`;

const suggested = async (client: Client, at: string, position: unknown, body: string) => {
  const made = await client.post(`${at}/discussions`, { body, position });
  expect(made).toMatchObject({ status: 201 });
  return made.body.notes[0];
};

const fileOf = async (client: Client, path: string, name = 'a.txt'): Promise<string> =>
  (await client.get(`${path}/repository/files/${name}/raw?ref=feature`)).body;

describe('suggestions', () => {
  it('are listed with their comment and applied as a commit, which resolves the thread', async () => {
    const { owner, reporter, developer, at, path, people, on } = await makeReview(app());
    const note = await suggested(reporter, at, on({ new_line: 10 }), fence('TEN\neleven', ':-1+1'));
    expect(note.suggestions).toEqual([
      {
        id: expect.any(Number),
        from_line: 9,
        to_line: 11,
        appliable: true,
        applied: false,
        from_content: '9\nten\n11\n',
        to_content: 'TEN\neleven\n',
      },
    ]);
    const [{ id }] = note.suggestions;
    for (const [who, status] of [
      [app().anonymous, 401],
      [reporter, 403],
    ] as const) {
      expect((await who.put(`/suggestions/${id}/apply`)).status).toBe(status);
    }
    const applied = await developer.put(`/suggestions/${id}/apply`);
    expect(applied).toMatchObject({ status: 200, body: { id, applied: true, appliable: false } });
    expect(await fileOf(owner, path)).toBe(lines(20, { 9: null, 10: 'TEN', 11: 'eleven' }));
    const { body: tip } = await owner.get(`${path}/repository/commits/feature`);
    expect(tip).toMatchObject({
      title: 'Apply 1 suggestion(s) to 1 file(s)',
      author_name: expect.stringContaining(people.developer.username),
      message: expect.stringMatching(/\n\nCo-authored-by: .+ <.+@.+>\n?$/),
    });
    const { notes } = (await owner.get(`${at}/discussions/${note.discussion_id}`)).body;
    expect(notes[0]).toMatchObject({ resolved: true, suggestions: [{ applied: true }] });
    const again = await developer.put(`/suggestions/${id}/apply`);
    expect(again).toMatchObject({ status: 400, body: { message: expect.stringContaining('already applied') } });
    await app().settle();
    // The comment is on the lines that it has replaced.
    expect((await owner.get(`${at}/notes?activity_filter=only_activity&sort=asc`)).body).toMatchObject([
      { body: 'resolved all threads' },
      { body: expect.stringContaining('added 1 commit') },
      { body: 'changed this line in version 2 of the diff' },
    ]);
  });

  it('are applied together in one commit, with the message of the project or the caller', async () => {
    const { owner, at, path, people, project, on } = await makeReview(app(), {
      suggestion_commit_message: '%{username}: %{suggestions_count} in %{file_paths} of %{branch_name}, %{unknown}',
    });
    const inNew = on({ old_path: 'b.txt', new_path: 'b.txt', new_line: 1 });
    const first = await suggested(owner, at, inNew, fence('newer'));
    const second = await suggested(owner, at, on({ new_line: 10 }), `${fence('X')}${fence('', ':-0+0')}`);
    const third = await suggested(owner, at, on({ old_line: 12, new_line: 12 }), fence('12b'));
    const ids = [first, second, third].map((note) => note.suggestions[0].id);
    const overlapping = { ids: second.suggestions.map(({ id }: { id: number }) => id) };
    expect(await owner.put('/suggestions/batch_apply', overlapping)).toMatchObject({
      status: 400,
      body: { message: 'Suggestions are not applicable as their lines cannot overlap.' },
    });
    expect((await owner.put('/suggestions/batch_apply', { ids: [] })).status).toBe(400);
    expect((await owner.put('/suggestions/batch_apply', { ids: [...ids, 999_999_999] })).status).toBe(404);
    const before = (await owner.get(`${path}/repository/commits/feature`)).body.id;
    const applied = await owner.put('/suggestions/batch_apply', { ids });
    expect(applied).toMatchObject({ status: 200, body: ids.map((id) => ({ id, applied: true })) });
    const { body: tip } = await owner.get(`${path}/repository/commits/feature`);
    expect([tip.parent_ids, tip.title]).toEqual([
      [before],
      `${people.owner.username}: 3 in b.txt, a.txt of feature, %{unknown}`,
    ]);
    expect(await fileOf(owner, path)).toBe(lines(20, { 10: 'X', 12: '12b' }));
    expect(await fileOf(owner, path, 'b.txt')).toBe('newer\nfile\n');
    await app().settle();
    const { diff_refs } = (await owner.get(at)).body;
    const last = { position_type: 'text', ...diff_refs, old_path: 'a.txt', new_path: 'a.txt', new_line: 10 };
    const fourth = await suggested(owner, at, last, fence('Y'));
    const message = { commit_message: 'In %{project_name} at %{project_path} by %{user_full_name}, %{files_count}' };
    await owner.put(`/suggestions/${fourth.suggestions[0].id}/apply`, message);
    const { title } = (await owner.get(`${path}/repository/commits/feature`)).body;
    expect(title).toMatch(new RegExp(`^In .+ at ${project.path_with_namespace.split('/').at(-1)} by .+, 1$`));
    await app().settle();
    const fifth = await suggested(owner, at, last, fence('Z'));
    expect(fifth.suggestions).toMatchObject([{ appliable: false }]);
    await app().settle();
    const all = { ids: [fifth.suggestions[0].id], commit_message: 'x' };
    expect((await owner.put('/suggestions/batch_apply', all)).status).toBe(400);
  });

  it('are refused when outdated, when the merge request is closed, and where the caller may not push', async () => {
    const { owner, developer, at, path, on } = await makeReview(app());
    const note = await suggested(owner, at, on({ new_line: 10 }), fence('TEN'));
    const same = await suggested(owner, at, on({ new_line: 10 }), fence('ten'));
    const apply = (who: Client, id = note.suggestions[0].id) => who.put(`/suggestions/${id}/apply`);
    expect((await apply(owner, same.suggestions[0].id)).status).toBe(400);
    await owner.put(at, { state_event: 'close' });
    expect(await apply(owner)).toMatchObject({ status: 400, body: { message: expect.stringContaining('closed') } });
    await owner.put(at, { state_event: 'reopen' });
    await owner.post(`${path}/protected_branches`, { name: 'feature', push_access_level: 40 });
    expect((await apply(developer)).status).toBe(403);
    // The branch has moved, and its new version is not made yet.
    const content = lines(20, { 10: 'other' });
    await commit(owner, path, 'feature', [{ action: 'update', file_path: 'a.txt', content }]);
    expect((await apply(owner)).status).toBe(400);
    await app().settle();
    expect(await apply(owner)).toMatchObject({ status: 400, body: { message: expect.stringContaining('changed') } });
    expect(await fileOf(owner, path)).toBe(content);
    expect((await owner.get(`${at}/notes/${note.id}`)).body.suggestions).toMatchObject([{ appliable: false }]);
  });

  it('are outdated as soon as one of their lines changes, while their comment stays where it is', async () => {
    const { owner, at, path, on } = await makeReview(app());
    const note = await suggested(owner, at, on({ new_line: 10 }), fence('NINE\nTEN', ':-1+0'));
    const other = await suggested(owner, at, on({ new_line: 10 }), fence('TEN\nELEVEN', ':-0+1'));
    const content = `zero\n${lines(20, { 9: 'nine', 10: 'ten' })}`;
    await commit(owner, path, 'feature', [{ action: 'update', file_path: 'a.txt', content }]);
    await app().settle();
    const read = async (id: number) => (await owner.get(`${at}/notes/${id}`)).body;
    expect(await read(note.id)).toMatchObject({ position: { new_line: 11 }, suggestions: [{ appliable: false }] });
    expect(await read(other.id)).toMatchObject({ position: { new_line: 11 }, suggestions: [{ appliable: true }] });
    expect(await owner.put(`/suggestions/${note.suggestions[0].id}/apply`)).toMatchObject({
      status: 400,
      body: { message: "Can't apply as this line was changed in a more recent version." },
    });
    expect((await owner.put(`/suggestions/${other.suggestions[0].id}/apply`)).status).toBe(200);
    expect(await fileOf(owner, path)).toBe(`zero\n${lines(20, { 9: 'nine', 10: 'TEN', 11: 'ELEVEN' })}`);
  });

  it('obey the push rules of the project', async () => {
    const { owner, at, path, on } = await makeReview(app());
    const note = await suggested(owner, at, on({ new_line: 10 }), fence('TEN'));
    await owner.post(`${path}/push_rule`, { commit_message_regex: '^Reviewed' });
    const apply = (commit_message: string) =>
      owner.put(`/suggestions/${note.suggestions[0].id}/apply`, { commit_message });
    expect((await apply('Apply')).status).toBe(400);
    expect((await apply('Reviewed: apply')).status).toBe(200);
  });

  it('keep the line endings of the file', async () => {
    const { owner, at, path } = await makeReview(app());
    await commit(owner, path, 'feature', [{ action: 'create', file_path: 'w.txt', content: 'one\r\ntwo' }]);
    await app().settle();
    const { diff_refs } = (await owner.get(at)).body;
    const on = (new_line: number) => ({ position_type: 'text', ...diff_refs, new_path: 'w.txt', new_line });
    const first = await suggested(owner, at, on(1), fence('1\nand a half'));
    const second = await suggested(owner, at, on(2), fence('2'));
    const ids = [first, second].map((note) => note.suggestions[0].id);
    const applied = await owner.put('/suggestions/batch_apply', { ids, commit_message: 'As agreed' });
    expect(applied.status).toBe(200);
    expect((await owner.get(`${path}/repository/commits/feature`)).body.title).toBe('As agreed');
    expect(await fileOf(owner, path, 'w.txt')).toBe('1\r\nand a half\r\n2');
  });

  it('are none if they replace very long lines', async () => {
    const { owner, at, path } = await makeReview(app());
    const content = `${'x'.repeat(600_000)}\n`;
    await commit(owner, path, 'feature', [{ action: 'create', file_path: 'long.txt', content }]);
    await app().settle();
    const { diff_refs } = (await owner.get(at)).body;
    const position = { position_type: 'text', ...diff_refs, new_path: 'long.txt', new_line: 1 };
    expect((await suggested(owner, at, position, fence('a'))).suggestions).toHaveLength(1);
    expect((await suggested(owner, at, position, `${fence('a')}${fence('b')}`)).suggestions).toEqual([]);
  });

  it('follow changes of their comment, and are none off the lines of a text', async () => {
    const { owner, at, path, on } = await makeReview(app());
    const note = await suggested(owner, at, on({ new_line: 10 }), fence('a'));
    const changed = await owner.put(`${at}/notes/${note.id}`, { body: fence('b') });
    expect(changed.body.suggestions).toMatchObject([{ to_content: 'b\n' }]);
    const reply = await owner.post(`${at}/discussions/${note.discussion_id}/notes`, { body: fence('c') });
    expect(reply.body.suggestions).toMatchObject([{ to_content: 'c\n', from_line: 10 }]);
    expect((await suggested(owner, at, on({ old_line: 10 }), fence('d'))).suggestions).toEqual([]);
    expect((await owner.post(`${at}/notes`, { body: fence('e') })).body.suggestions).toEqual([]);
    await commit(owner, path, 'feature', [
      { action: 'create', file_path: 'bin', content: 'YQBiCg==', encoding: 'base64' },
    ]);
    await app().settle();
    const { diff_refs } = (await owner.get(at)).body;
    const inBinary = { position_type: 'file', ...diff_refs, new_path: 'bin' };
    expect((await suggested(owner, at, inBinary, fence('f'))).suggestions).toEqual([]);
  });
});

describe('the parser of suggestions', () => {
  it('reads fences as CommonMark does', () => {
    const read = (body: string) => parseSuggestions(body).map((each) => each.to_content);
    expect(parseSuggestions(fence('a', ':-2+3'))).toEqual([{ lines_above: 2, lines_below: 3, to_content: 'a\n' }]);
    expect(parseSuggestions(fence('a', ':-999999999+200'))).toMatchObject([{ lines_above: 100, lines_below: 100 }]);
    expect(read('```suggestion\n```')).toEqual(['']);
    expect(read('````suggestion\n```\na\n```\n````')).toEqual(['```\na\n```\n']);
    expect(read('~~~suggestion\na\n~~~')).toEqual(['a\n']);
    expect(read('```suggestion\r\na\r\n```')).toEqual(['a\n']);
    expect(read('```suggestion\na')).toEqual(['a\n']);
    expect(read('```js\n```suggestion\n```\n```suggestion\nb\n```')).toEqual(['b\n']);
    for (const none of [
      '> ```suggestion\n> a\n> ```',
      '    ```suggestion\na\n```',
      '```suggestions\na\n```',
      'suggestion',
    ]) {
      expect(read(none)).toEqual([]);
    }
  });

  it('takes no time for hostile bodies, and a bounded number', () => {
    const many = '```suggestion\n```\n'.repeat(50_000);
    const deep = `${'`'.repeat(500_000)}suggestion\n${'`'.repeat(499_999)}\n`;
    const open = `suggestion\n${'```suggestion:-1+1 \t'.repeat(40_000)}`;
    const spaces = `suggestion\n\`\`\`suggestion${' '.repeat(900_000)}x`;
    const start = computedMs();
    expect(parseSuggestions(many)).toHaveLength(100);
    for (const body of [deep, open, spaces]) parseSuggestions(body);
    expect(computedMs() - start).toBeLessThan(2_000);
  });

  it('fills templates once', () => {
    const facts = {
      branch_name: '%{username}',
      project_path: 'p',
      project_name: 'P',
      username: 'u',
      user_full_name: 'U',
      file_paths: ['a', 'b'],
      suggestions_count: 2,
      co_authors: [],
    };
    expect(suggestionMessage('%{branch_name} %{file_path} %{constructor}', facts)).toBe(
      '%{username} a, b %{constructor}',
    );
    expect(suggestionMessage(' ', facts)).toBe('Apply 2 suggestion(s) to 2 file(s)');
  });
});
