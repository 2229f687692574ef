import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { filledProject } from './reading-support.ts';
import { runGit, useFolder } from './support.ts';

const app = useApp();
const folder = useFolder();

// biome-ignore lint/suspicious/noExplicitAny: bodies of answers
const titles = (answer: { body: any }) => answer.body.map(({ title }: { title: string }) => title);

describe('GET repository/commits', () => {
  it('lists by branch, range, path, author, time and first parent, in pages without a count', async () => {
    const { owner, tree, remote, path, commit } = await filledProject(app(), folder(), { a: '1' });
    await runGit(tree, 'checkout', '-q', '-b', 'side');
    await commit({ b: '1' }, 'On the side');
    await runGit(tree, 'checkout', '-q', 'main');
    await commit({ a: '2' }, 'On main');
    await runGit(tree, 'merge', '-q', '--no-ff', '-m', 'Merge', 'side');
    await runGit(tree, 'commit', '-q', '--allow-empty', '--author', 'Bob <bob@example.com>', '-m', 'By Bob');
    await runGit(tree, 'push', '-q', remote, 'main');
    await runGit(tree, 'checkout', '-q', '--orphan', 'other');
    await commit({}, 'Unrelated');
    const client = app().as(owner);
    const list = (query: string) => client.get(path(`/commits?${query}`));
    expect(titles(await list('')).sort()).toEqual(
      ['Add files', 'By Bob', 'First commit', 'Merge', 'On main', 'On the side'].sort(),
    );
    expect(titles(await list('first_parent=true'))).toEqual([
      'By Bob',
      'Merge',
      'On main',
      'Add files',
      'First commit',
    ]);
    const counted = async (query: string) => (await client.get(path(`/commits/main/sequence${query}`))).body;
    expect(await counted('')).toEqual({ count: 6 });
    expect(await counted('?first_parent=true')).toEqual({ count: 5 });
    expect(titles(await list('ref_name=side..main')).sort()).toEqual(['By Bob', 'Merge', 'On main']);
    expect(titles(await list('ref_name=main..side'))).toEqual([]);
    expect(titles(await list(`ref_name=${encodeURIComponent('side...main')}`)).sort()).toEqual([
      'By Bob',
      'Merge',
      'On main',
    ]);
    expect(titles(await list('path=a'))).toEqual(['On main', 'Add files']);
    expect(titles(await list('author=bob@'))).toEqual(['By Bob']);
    expect(titles(await list('since=2999-01-01'))).toEqual([]);
    expect(titles(await list('all=true'))).toContain('Unrelated');
    expect(titles(await list('order=topo'))[0]).toBe('By Bob');
    expect((await list('order=time')).status).toBe(400);
    for (const ref of ['absent', 'absent..main', 'main...absent', 'main....side']) {
      expect([ref, (await list(`ref_name=${ref}`)).status]).toEqual([ref, 404]);
    }
    const page = await list('per_page=2&page=2');
    expect([page.body.length, page.headers.get('x-total'), page.headers.get('x-next-page')]).toEqual([2, null, '3']);
    expect(page.headers.get('link')).toContain('rel="next"');
    const stats = await list('with_stats=true&ref_name=side');
    expect(stats.body.map((each: { stats: unknown }) => each.stats)).toEqual([
      { additions: 1, deletions: 0, total: 1 },
      { additions: 1, deletions: 0, total: 1 },
      { additions: 1, deletions: 0, total: 1 },
    ]);
    expect((await list('')).body[0].stats).toBeUndefined();
  });
});

describe('GET one commit', () => {
  it('shows its statistics, its pipeline, its changes and its refs', async () => {
    const { owner, project, tree, remote, path, commit } = await filledProject(app(), folder(), { a: 'x\ny\n' });
    const before = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'mv', 'a', 'moved');
    const head = await commit(
      { b: 'z\n', 'yarn.lock': 'l\n' },
      'Move\n\nCo-authored-by: A <a@b>\nCo-authored-by: C <c@d>',
    );
    await runGit(tree, 'tag', 'v1');
    await runGit(tree, 'push', '-q', remote, 'v1', 'main:refs/heads/another');
    const client = app().as(owner);
    const { body } = await client.get(path(`/commits/${head}`));
    expect(body).toMatchObject({
      id: head,
      parent_ids: [before],
      project_id: project.id,
      stats: { additions: 2, deletions: 0, total: 2 },
      status: null,
      last_pipeline: null,
      extended_trailers: { 'Co-authored-by': ['A <a@b>', 'C <c@d>'] },
    });
    expect((await client.get(path('/commits/main?stats=false'))).body.stats).toBeUndefined();
    const { id } = await app()
      .hub.services.db.insertInto('pipelines')
      .values({ project_id: project.id, iid: 1, sha: head, ref: 'main', status: 'failed', source: 'push' })
      .returning('id')
      .executeTakeFirstOrThrow();
    expect((await client.get(path(`/commits/${head}`))).body).toMatchObject({
      status: 'failed',
      last_pipeline: { id, sha: head, ref: 'main', status: 'failed', source: 'push' },
    });

    const diff = await client.get(path(`/commits/${head}/diff`));
    expect(diff.headers.get('x-total')).toBe('3');
    expect(diff.body[0]).toEqual({
      old_path: 'b',
      new_path: 'b',
      a_mode: '0',
      b_mode: '100644',
      diff: '@@ -0,0 +1 @@\n+z\n',
      new_file: true,
      renamed_file: false,
      deleted_file: false,
      generated_file: false,
      collapsed: false,
      too_large: false,
    });
    expect(diff.body[1]).toMatchObject({ old_path: 'a', new_path: 'moved', renamed_file: true, diff: '' });
    expect(diff.body[2]).toMatchObject({ new_path: 'yarn.lock', generated_file: true });
    const unified = await client.get(path(`/commits/${head}/diff?unidiff=true&per_page=1`));
    expect(unified.body.map((each: { diff: string }) => each.diff)).toEqual([
      '--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+z\n',
    ]);
    expect((await client.get(path(`/commits/${head}/diff?per_page=2&page=2`))).body).toMatchObject([
      { new_path: 'yarn.lock' },
    ]);
    expect((await client.get(path(`/commits/${before}~99/diff`))).status).toBe(404);

    const refs = async (query = '') => (await client.get(path(`/commits/${head}/refs${query}`))).body;
    expect(await refs()).toEqual([
      { type: 'branch', name: 'another' },
      { type: 'branch', name: 'main' },
      { type: 'tag', name: 'v1' },
    ]);
    expect(await refs('?type=tag')).toEqual([{ type: 'tag', name: 'v1' }]);
    expect(await refs('?type=branch&per_page=1&page=2')).toEqual([{ type: 'branch', name: 'main' }]);
    expect((await client.get(path(`/commits/${head}/sequence`))).body).toEqual({ count: 3 });
    const unsigned = await client.get(path(`/commits/${head}/signature`));
    expect([unsigned.status, unsigned.body.message]).toEqual([404, '404 Signature Not Found']);
  });

  it('truncates a diff at the limits in the settings', async () => {
    const files = { a: 'x\n'.repeat(600), b: '1\n2\n3\n', c: '1\n2\n', d: '1\n' };
    const { owner, project, path } = await filledProject(app(), folder(), files);
    const bounds = (value: Record<string, unknown>) => app().as(app().root).put('/application/settings', value);
    expect((await bounds({ diff_max_files: 0 })).status).toBe(400);
    expect((await bounds({ diff_max_patch_bytes: 100_000_000 })).status).toBe(400);
    const usual = { diff_max_files: 1_000, diff_max_lines: 50_000, diff_max_patch_bytes: 204_800 };
    const client = app().as(owner);
    const outlines = (diffs: { new_path: string; too_large: boolean; collapsed: boolean }[]) =>
      diffs.map(({ new_path, too_large, collapsed }) => [new_path, too_large, collapsed]);
    const tight = [
      ['a', true, false],
      ['b', false, false],
      ['c', false, true],
    ];
    try {
      const set = await bounds({ diff_max_files: 3, diff_max_lines: 6, diff_max_patch_bytes: 1_024 });
      expect(set.body).toMatchObject({ diff_max_files: 3, diff_max_lines: 6, diff_max_patch_bytes: 1_024 });
      const diff = await client.get(path('/commits/main/diff'));
      expect([diff.headers.get('x-total'), outlines(diff.body)]).toEqual(['3', tight]);
      const { parent_ids } = (await client.get(path('/commits/main'))).body;
      const compared = await client.get(`/projects/${project.id}/repository/compare?from=${parent_ids[0]}&to=main`);
      expect([compared.body.compare_timeout, outlines(compared.body.diffs)]).toEqual([true, tight]);
    } finally {
      expect((await bounds(usual)).body).toMatchObject(usual);
    }
    const whole = outlines((await client.get(path('/commits/main/diff'))).body);
    expect(whole).toEqual(['a', 'b', 'c', 'd'].map((name) => [name, false, false]));
  });

  it('shows the type of a signature', async () => {
    const { owner, tree, remote, path } = await filledProject(app(), folder());
    const raw = await runGit(tree, 'cat-file', 'commit', 'HEAD');
    const [head = '', ...message] = raw.split('\n\n');
    const signed = `${head}\ngpgsig -----BEGIN SSH SIGNATURE-----\n abc\n -----END SSH SIGNATURE-----\n\n${message.join('\n\n')}\n`;
    await import('node:fs/promises').then((fs) => fs.writeFile(`${tree}/.git/signed`, signed));
    const oid = await runGit(tree, 'hash-object', '-t', 'commit', '-w', '.git/signed');
    await runGit(tree, 'push', '-q', remote, `${oid}:refs/heads/signed`);
    const { status, body } = await app().as(owner).get(path('/commits/signed/signature'));
    expect([status, body]).toEqual([
      200,
      { signature_type: 'SSH', verification_status: 'unknown_key', key: null, commit_source: 'gitaly' },
    ]);
  });

  it('requires the right to read the code', async () => {
    const { project, path } = await filledProject(app(), folder());
    const [guest, stranger] = [await app().make.user(), await app().make.user()];
    await app().make.projectMember(project, guest, 10);
    for (const rest of ['', '/main', '/main/diff', '/main/refs', '/main/sequence', '/main/signature']) {
      const url = path(`/commits${rest}`);
      const clients = [app().anonymous, app().as(stranger), app().as(guest)];
      const statuses = await Promise.all(clients.map(async (client) => (await client.get(url)).status));
      expect([rest, statuses]).toEqual([rest, [404, 404, 403]]);
    }
    const open = await filledProject(app(), folder(), {}, { visibility: 'public' });
    expect((await app().anonymous.get(open.path('/commits/main/diff'))).body).toMatchObject([
      { new_path: 'README.md' },
    ]);
  });
});
