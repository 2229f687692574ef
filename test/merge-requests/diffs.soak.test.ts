import { afterEach, describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { insertDiff, insertMergeRequest } from './support.ts';

const app = useApp();

type Scene = Awaited<ReturnType<typeof makeScene>>;
type File = readonly [path: string, content: string];

const commit = async ({ owner, path }: Scene, files: readonly File[], message = 'Change files') => {
  const answer = await owner.post(`${path}/repository/commits`, {
    branch: 'feature',
    ...((await owner.get(`${path}/repository/branches/feature`)).status === 200 ? {} : { start_branch: 'main' }),
    commit_message: message,
    actions: files.map(([file_path, content]) => ({ action: 'create', file_path, content })),
  });
  expect(answer.status).toBe(201);
  return answer.body.id as string;
};

/** Opens a merge request of a branch with these files. */
const proposal = async (files: readonly File[], message?: string) => {
  const scene = await makeScene(app(), { initialize_with_readme: true });
  await commit(scene, files, message);
  const answer = await scene.owner.post(`${scene.path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Add files',
  });
  expect(answer.status).toBe(201);
  await app().settle();
  return { ...scene, at: `${scene.path}/merge_requests/1` };
};

const raw = async (scene: Scene, path: string) => {
  const token = await app().tokenOf(scene.people.owner);
  const answer = await fetch(`${app().url}/api/v4${path}`, { headers: { 'private-token': token } });
  return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() };
};

describe('the changes of a merge request as text', () => {
  it('come from the repository, whole', async () => {
    const scene = await proposal([
      ['a.txt', 'one\ntwo\n'],
      ['dir/ü.txt', 'three'],
    ]);
    const { status, type, text } = await raw(scene, `${scene.at}/raw_diffs`);
    expect([status, type]).toEqual([200, 'text/plain; charset=utf-8']);
    expect(text).toMatch(
      /^diff --git a\/a\.txt b\/a\.txt\nnew file mode 100644\nindex 0{40}\.\.[0-9a-f]{40}\n--- \/dev\/null\n\+\+\+ b\/a\.txt\n@@ -0,0 \+1,2 @@\n\+one\n\+two\n/,
    );
    // As `git diff` quotes it by default.
    expect(text).toContain('diff --git "a/dir/\\303\\274.txt" "b/dir/\\303\\274.txt"\n');
    expect(text).toContain('+++ "b/dir/\\303\\274.txt"\n');
    expect((await scene.guest.get(`${scene.at}/raw_diffs`)).status).toBe(403);
    expect((await scene.stranger.get(`${scene.at}/raw_diffs`)).status).toBe(404);
    expect((await app().anonymous.get(`${scene.at}/raw_diffs`)).status).toBe(404);
  });

  it('come from the stored files if the repository lacks the commits', async () => {
    const scene = await makeScene(app());
    const { db } = app().hub.services;
    const { id } = await insertMergeRequest(db, { project_id: scene.project.id });
    const at = `${scene.path}/merge_requests/1`;
    expect(await raw(scene, `${at}/raw_diffs`)).toMatchObject({ status: 200, text: '' });
    const many = Array.from({ length: 30 }, (_, i) => ({ new_path: `f${i}`, diff: '@@ -1 +1 @@\n-x\n+y\n' }));
    await insertDiff(db, id, {
      shas: ['a1'.repeat(20)],
      files: [
        ...many,
        { new_path: 'new', new_file: true, a_mode: '0', diff: '@@ -0,0 +1 @@\n+a\n' },
        { new_path: 'ü "1"\n', old_path: 'ü\\', renamed_file: true, diff: '@@ -1 +1 @@\n-x\n+y\n' },
        { new_path: 'moved', old_path: 'old', renamed_file: true, diff: '' },
        { new_path: 'gone', deleted_file: true, b_mode: '0', diff: '@@ -1 +0,0 @@\n-a\n' },
      ],
    });
    const { text } = await raw(scene, `${at}/raw_diffs`);
    expect(text.match(/^diff --git /gm)).toHaveLength(34);
    expect(text).toContain('diff --git a/f7 b/f7\n--- a/f7\n+++ b/f7\n@@ -1 +1 @@\n-x\n+y\n');
    expect(text).toContain('new file mode 100644\n--- /dev/null\n+++ b/new\n');
    const [from, to] = [String.raw`\303\274\\`, String.raw`\303\274 \"1\"\n`];
    expect(text).toContain(`diff --git "a/${from}" "b/${to}"\nrename from "${from}"\nrename to "${to}"\n`);
    expect(text).toContain(`--- "a/${from}"\n+++ "b/${to}"\n@@ -1 +1 @@\n`);
    expect(text).toContain('diff --git a/old b/moved\nrename from old\nrename to moved\n');
    expect(text).toContain('deleted file mode 100644\n--- a/gone\n+++ /dev/null\n');
  });
});

describe('versions', () => {
  it('lose their files after the merge, except for the newest, and are computed from the repository then', async () => {
    const scene = await proposal([['a.txt', 'one\n']]);
    const { owner, at } = scene;
    await commit(scene, [['b.txt', 'two\n']]);
    await app().settle();
    const [newest, first] = (await owner.get(`${at}/versions`)).body;
    const shown = async (id: number, query = '') => (await owner.get(`${at}/versions/${id}${query}`)).body;
    const before = await shown(first.id);
    expect(before).toMatchObject({ state: 'collected', diffs: [{ new_path: 'a.txt', diff: '@@ -0,0 +1 @@\n+one\n' }] });
    expect((await shown(first.id, '?unidiff=true')).diffs[0].diff).toMatch(/^--- \/dev\/null\n\+\+\+ b\/a.txt\n@@/);
    expect((await owner.put(`${at}/merge`)).status).toBe(200);
    await app().settle();
    const { db } = app().hub.services;
    const stored = await db
      .selectFrom('merge_request_diff_files')
      .select('diff_id')
      .where('diff_id', 'in', [newest.id, first.id])
      .execute();
    expect(stored).toEqual([{ diff_id: newest.id }, { diff_id: newest.id }]);
    expect(await shown(first.id)).toEqual({ ...before, state: 'without_files' });
    expect((await shown(first.id, '?unidiff=true')).diffs[0].diff).toMatch(/^--- \/dev\/null\n\+\+\+ b\/a.txt\n@@/);
    expect(await shown(newest.id)).toMatchObject({ state: 'collected', diffs: [{}, {}] });
  });

  it('store the beginning of a message of many kilobytes', async () => {
    const message = `Long\n\n${'all work '.repeat(30_000)}`;
    const { owner, at } = await proposal([['a.txt', 'one\n']], message);
    const { body, headers } = await owner.get(`${at}/commits`);
    expect(headers.get('x-total')).toBe('1');
    expect(body[0].title).toBe('Long');
    expect(body[0].message).toBe(message.slice(0, 64 * 1024));
  });
});

describe('diffs beyond the limits of the instance', () => {
  const settings = (body: Record<string, unknown>) => app().as(app().root).put('/application/settings', body);
  let usual: Record<string, unknown> = {};
  afterEach(() => settings(usual));

  it('are marked, and the number of changes ends with +', async () => {
    const { diff_max_files, diff_max_lines, diff_max_patch_bytes } = (
      await app().as(app().root).get('/application/settings')
    ).body;
    usual = { diff_max_files, diff_max_lines, diff_max_patch_bytes };
    const line = `${'x'.repeat(99)}\n`;
    const files: readonly File[] = [
      ['a.txt', line.repeat(10)],
      ['b.txt', line.repeat(3_000)],
      ['c.lock', line],
    ];
    const shownWith = async (body: Record<string, unknown>) => {
      expect((await settings({ ...usual, ...body })).status).toBe(200);
      const { owner, at } = await proposal(files);
      const { changes_count, changes, overflow } = (await owner.get(`${at}/changes`)).body;
      const marks = changes.map((file: Record<string, unknown>) => [
        file.new_path,
        file.too_large,
        file.collapsed,
        file.diff === '',
      ]);
      expect((await owner.get(`${at}/diffs`)).body).toEqual(changes);
      return {
        changes_count,
        overflow,
        marks,
        generated: changes.map((file: Record<string, unknown>) => file.generated_file),
      };
    };
    // Patches larger than a tenth of the limit are folded.
    expect(await shownWith({ diff_max_patch_bytes: 1_000_000 })).toMatchObject({
      changes_count: '3',
      overflow: false,
      marks: [
        ['a.txt', false, false, false],
        ['b.txt', false, true, false],
        ['c.lock', false, false, false],
      ],
    });
    // b.txt is larger than the usual 200 KiB.
    expect(await shownWith({})).toEqual({
      changes_count: '3',
      overflow: false,
      marks: [
        ['a.txt', false, false, false],
        ['b.txt', true, false, true],
        ['c.lock', false, false, false],
      ],
      generated: [false, false, true],
    });
    expect(await shownWith({ diff_max_patch_bytes: 500_000, diff_max_lines: 1_000 })).toMatchObject({
      changes_count: '3+',
      overflow: true,
      marks: [
        ['a.txt', false, false, false],
        ['b.txt', false, true, true],
        ['c.lock', false, false, false],
      ],
    });
    // From a tenth of the files on.
    expect(await shownWith({ diff_max_files: 12, diff_max_patch_bytes: 1_000_000 })).toMatchObject({
      changes_count: '3',
      marks: [
        ['a.txt', false, false, false],
        ['b.txt', false, true, false],
        ['c.lock', false, true, false],
      ],
    });
  });
});
