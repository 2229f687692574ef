import { writeFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { followVersion } from '#domains/notes/following.ts';
import { counterpart, type Hunk, hunksOf, otherLine } from '#domains/notes/positions/line-map.ts';
import { tryGit, useFolder } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { commit, lines, makeReview } from './support.ts';

const app = useApp();

const positionOf = async (client: Client, at: string, id: string) =>
  (await client.get(`${at}/discussions/${id}`)).body.notes[0].position;

const bodiesOf = async (client: Client, at: string, id: string): Promise<string[]> =>
  (await client.get(`${at}/discussions/${id}`)).body.notes.map(({ body }: { body: string }) => body);

const started = async (client: Client, at: string, position: unknown): Promise<string> => {
  const made = await client.post(`${at}/discussions`, { body: 'x', position });
  expect(made).toMatchObject({ status: 201 });
  return made.body.id;
};

describe('comments on lines', () => {
  it('move with their lines to a new version', async () => {
    const { owner, at, path, on } = await makeReview(app());
    const added = await started(owner, at, on({ new_line: 10 }));
    const removed = await started(owner, at, on({ old_line: 10 }));
    const unchanged = await started(owner, at, on({ old_line: 9, new_line: 9 }));
    const range = { start: { old_line: 9, new_line: 9 }, end: { new_line: 10, type: 'new' } };
    const several = await started(owner, at, on({ new_line: 10, line_range: range }));
    await owner.post(`${at}/discussions/${added}/notes`, { body: 'reply' });
    const content = `first\nsecond\n${lines(20, { 10: 'ten' })}`;
    const head = await commit(owner, path, 'feature', [{ action: 'update', file_path: 'a.txt', content }]);
    await app().settle();
    expect(await positionOf(owner, at, added)).toMatchObject({ head_sha: head, old_line: null, new_line: 12 });
    expect(await positionOf(owner, at, removed)).toMatchObject({ head_sha: head, old_line: 10, new_line: null });
    expect(await positionOf(owner, at, unchanged)).toMatchObject({ head_sha: head, old_line: 9, new_line: 11 });
    expect((await positionOf(owner, at, several)).line_range).toMatchObject({
      start: { old_line: 9, new_line: 11 },
      end: { old_line: null, new_line: 12 },
    });
    const both = (await owner.get(`${at}/discussions/${added}`)).body.notes;
    expect(both.map((note: { position: unknown }) => note.position)).toEqual([both[0].position, both[0].position]);
    expect(await bodiesOf(owner, at, added)).toEqual(['x', 'reply']);
    // A comment on the older version is moved too.
    const late = await started(owner, at, on({ new_line: 10 }));
    await app().settle();
    expect(await positionOf(owner, at, late)).toMatchObject({ head_sha: head, new_line: 12 });
  });

  it('follow renamed files', async () => {
    const { owner, at, path, on } = await makeReview(app());
    const thread = await started(owner, at, on({ new_line: 10 }));
    const file = await started(owner, at, on({ position_type: 'file' }));
    await commit(owner, path, 'feature', [
      { action: 'move', file_path: 'c.txt', previous_path: 'a.txt', content: lines(20, { 10: 'ten' }) },
    ]);
    await app().settle();
    const moved = { old_path: 'a.txt', new_path: 'c.txt' };
    expect(await positionOf(owner, at, thread)).toMatchObject({ ...moved, new_line: 10 });
    expect(await positionOf(owner, at, file)).toMatchObject(moved);
    // Either path names the renamed file.
    const { diff_refs } = (await owner.get(at)).body;
    const named = { position_type: 'text', ...diff_refs, new_path: 'c.txt', new_line: 10 };
    expect(await positionOf(owner, at, await started(owner, at, named))).toMatchObject(moved);
  });

  it('become outdated when their lines change, once, and stay so', async () => {
    const { owner, at, path, on, id, refs } = await makeReview(app());
    const added = await started(owner, at, on({ new_line: 10 }));
    await owner.post(`${at}/discussions/${added}/notes`, { body: 'reply' });
    const secret = await owner.post(`${at}/discussions`, { body: 's', internal: true, position: on({ new_line: 10 }) });
    const removed = await started(owner, at, on({ old_line: 10 }));
    const picture = { position_type: 'image', width: 1, height: 1, x: 0, y: 0, new_path: 'b.txt', old_path: 'b.txt' };
    const image = await started(owner, at, on(picture));
    await commit(owner, path, 'feature', [
      { action: 'update', file_path: 'a.txt', content: lines(20) },
      { action: 'update', file_path: 'b.txt', content: 'another\n' },
    ]);
    await app().settle();
    const note = 'changed this line in version 2 of the diff';
    expect(await bodiesOf(owner, at, added)).toEqual(['x', 'reply', note]);
    expect(await bodiesOf(owner, at, removed)).toEqual(['x', note]);
    expect(await bodiesOf(owner, at, image)).toEqual(['x', note]);
    const { notes } = (await owner.get(`${at}/discussions/${secret.body.id}`)).body;
    expect(notes.map(({ internal }: { internal: boolean }) => internal)).toEqual([true, true]);
    expect(await positionOf(owner, at, added)).toMatchObject(refs);
    expect((await owner.get(`${at}/discussions/${added}`)).body.notes[0].resolved).toBe(false);
    // Another version and another run add nothing.
    await commit(owner, path, 'feature', [{ action: 'create', file_path: 'd.txt', content: 'x' }]);
    await app().settle();
    await app()
      .context()
      .transaction(async (tx) => tx.enqueue(followVersion, { merge_request_id: id }));
    await app().settle();
    expect(await bodiesOf(owner, at, added)).toEqual(['x', 'reply', note]);
    // A reply is in the outdated thread.
    await owner.post(`${at}/discussions/${added}/notes`, { body: 'late' });
    await app().settle();
    expect(await bodiesOf(owner, at, added)).toEqual(['x', 'reply', note, 'late']);
  });

  it('are resolved when outdated, where the project says so', async () => {
    const { owner, at, path, on, people } = await makeReview(app(), { resolve_outdated_diff_discussions: true });
    const thread = await started(owner, at, on({ new_line: 10 }));
    await commit(owner, path, 'feature', [{ action: 'update', file_path: 'a.txt', content: lines(20, { 10: 'x' }) }]);
    await app().settle();
    const { notes } = (await owner.get(`${at}/discussions/${thread}`)).body;
    expect(notes[0]).toMatchObject({ resolved: true, resolved_by: { id: people.owner.id } });
    expect((await owner.get(`${at}/notes?activity_filter=only_activity`)).body).toMatchObject([
      { body: 'resolved all threads' },
      { body: 'changed this line in version 2 of the diff' },
      { body: expect.stringContaining('added 1 commit') },
    ]);
  });

  it('agree with a model of random pushes', async () => {
    const { owner, at, path } = await makeReview(app());
    // Every line is unique and lines keep their order, so it is known where each one must be.
    const original = Array.from({ length: 30 }, (_, index) => `line ${index}`);
    const text = (all: readonly string[]) => all.map((line) => `${line}\n`).join('');
    await commit(owner, path, 'main', [{ action: 'create', file_path: 'r.txt', content: text(original) }]);
    let current = ['first of all', ...original.slice(0, 10), 'x', 'y', ...original.slice(12)];
    const branch = { start_branch: 'main' };
    await commit(owner, path, 'random', [{ action: 'update', file_path: 'r.txt', content: text(current) }], branch);
    const opened = { source_branch: 'random', target_branch: 'main', title: 'Random' };
    expect((await owner.post(`${path}/merge_requests`, opened)).status).toBe(201);
    await app().settle();
    const second = at.replace(/1$/, '2');
    const { diff_refs } = (await owner.get(second)).body;
    const threads = new Map<string, string>();
    for (const [index, line] of current.entries()) {
      const old = original.indexOf(line);
      const position = { position_type: 'text', ...diff_refs, new_path: 'r.txt', new_line: index + 1 };
      threads.set(line, await started(owner, second, old === -1 ? position : { ...position, old_line: old + 1 }));
    }
    const outdated = new Set<string>();
    const edit = fc.record({ at: fc.nat({ max: 40 }), removed: fc.nat({ max: 2 }), added: fc.nat({ max: 2 }) });
    const pushes = fc.sample(fc.array(edit, { minLength: 1, maxLength: 3 }), 3);
    for (const [push, edits] of pushes.entries()) {
      for (const [each, { at: place, removed, added }] of edits.entries()) {
        const fresh = Array.from({ length: added }, (_, index) => `new ${push} ${each} ${index}`);
        current = [...current.slice(0, 1 + place), ...fresh, ...current.slice(1 + place + removed)];
      }
      current = [...current, `push ${push}`];
      await commit(owner, path, 'random', [{ action: 'update', file_path: 'r.txt', content: text(current) }]);
      await app().settle();
      const { body } = await owner.get(`${second}/discussions?per_page=100`);
      const found = new Map(body.map((each: { id: string; notes: unknown[] }) => [each.id, each.notes]));
      for (const [line, id] of threads) {
        if (!current.includes(line)) outdated.add(line);
        expect([line, found.get(id)]).toMatchObject([
          line,
          outdated.has(line)
            ? [{}, { body: expect.stringContaining('changed this line') }]
            : [{ position: { new_line: current.indexOf(line) + 1 } }],
        ]);
      }
    }
  });

  it('leaves imported positions alone if they have another form or lack commits', async () => {
    const { owner, at, path, id, on, project } = await makeReview(app());
    const { db } = app().hub.services;
    const odd = [{ head_sha: 5 }, { ...on({ new_line: 10 }), head_sha: 'f'.repeat(40), old_line: null }, { x: [] }];
    for (const [index, position] of odd.entries()) {
      await db
        .insertInto('notes')
        .values({
          project_id: project.id,
          noteable_type: 'MergeRequest',
          merge_request_id: id,
          type: 'DiffNote',
          note: 'odd',
          discussion_id: `odd${index}`,
          position: JSON.stringify(position),
        })
        .execute();
    }
    await commit(owner, path, 'feature', [{ action: 'create', file_path: 'd.txt', content: 'x' }]);
    await app().settle();
    const rows = await db.selectFrom('notes').select('position').where('note', '=', 'odd').orderBy('id').execute();
    expect(rows.map(({ position }) => position)).toEqual(odd);
    expect((await owner.get(`${at}/discussions`)).status).toBe(200);
  });
});

describe('the map of lines', () => {
  const folder = useFolder();

  it('agrees with git for any change', async () => {
    const file = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(file, file, async (before, after) => {
        const text = (all: readonly string[]) => all.map((line) => `${line}\n`).join('');
        await writeFile(`${folder()}/old`, text(before));
        await writeFile(`${folder()}/new`, text(after));
        const { stdout } = await tryGit(folder(), 'diff', '--no-index', '--unified=0', '--', 'old', 'new');
        const hunks: Hunk[] = hunksOf(stdout);
        for (let line = 1; line <= before.length; line += 1) {
          const now = otherLine(hunks, line, 'old');
          if (now === null) expect(counterpart(hunks, line, 'old')).not.toBeNull();
          else {
            expect(after[now - 1]).toBe(before[line - 1]);
            expect(otherLine(hunks, now, 'new')).toBe(line);
            expect(counterpart(hunks, line, 'old')).toBeNull();
          }
        }
        const kept = before.filter((_, index) => otherLine(hunks, index + 1, 'old') !== null);
        const also = after.filter((_, index) => otherLine(hunks, index + 1, 'new') !== null);
        expect(kept).toEqual(also);
      }),
      { numRuns: 25 },
    );
  });
});
