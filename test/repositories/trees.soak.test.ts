import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { filledProject } from './reading-support.ts';
import { runGit, useFolder } from './support.ts';

const app = useApp();
const folder = useFolder();
const run = promisify(execFile);

// biome-ignore lint/suspicious/noExplicitAny: bodies of answers
const paths = (answer: { body: any }) => answer.body.map(({ path }: { path: string }) => path);

describe('GET repository/tree', () => {
  it('lists one folder or all below it, by offset and by keyset', async () => {
    const files = { 'docs/a/x': '1', 'docs/b': '2', 'lib/c': '3', z: '4', 'a b#?': '5' };
    const { owner, tree, path } = await filledProject(app(), folder(), files);
    const client = app().as(owner);
    const root = await client.get(path('/tree'));
    expect(root.headers.get('x-total')).toBe('5');
    expect(paths(root)).toEqual(['docs', 'lib', 'README.md', 'a b#?', 'z']);
    expect(root.body[0]).toEqual({
      id: await runGit(tree, 'rev-parse', 'HEAD:docs'),
      name: 'docs',
      type: 'tree',
      path: 'docs',
      mode: '040000',
    });
    expect(paths(await client.get(path('/tree?path=docs')))).toEqual(['docs/a', 'docs/b']);
    expect(paths(await client.get(path('/tree?path=docs/a/&ref=main')))).toEqual(['docs/a/x']);
    const all = paths(await client.get(path('/tree?recursive=true')));
    expect(all).toEqual(['docs', 'docs/a', 'lib', 'README.md', 'a b#?', 'docs/a/x', 'docs/b', 'lib/c', 'z']);
    expect(paths(await client.get(path('/tree?recursive=true&per_page=4&page=2')))).toEqual(all.slice(4, 8));

    const seen: string[] = [];
    let url: string | undefined = `${app().url}/api/v4${path('/tree?recursive=true&pagination=keyset&per_page=2')}`;
    for (let pages = 0; url !== undefined && pages < 10; pages++) {
      const answer = await client.get(url.slice(app().url.length));
      seen.push(...paths(answer));
      url = /<([^>]*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
    }
    expect(seen).toEqual(all);
    expect((await client.get(path('/tree?pagination=keyset&page_token=nowhere'))).status).toBe(400);
  });

  it('reports missing refs and paths', async () => {
    const { owner, project, path } = await filledProject(app(), folder(), { 'docs/a': '1' });
    const client = app().as(owner);
    const said = async (url: string) => {
      const { status, body } = await client.get(url);
      return [status, body.message];
    };
    const bad = [404, '404 invalid revision or path Not Found'];
    for (const name of ['absent', 'docs/a', '..', 'docs/../docs', '.git', '-x', 'a\nb', 'x'.repeat(300)]) {
      expect([name, await said(path(`/tree?path=${encodeURIComponent(name)}`))]).toEqual([name, bad]);
    }
    expect(await said(path('/tree?ref=absent'))).toEqual([404, '404 Tree Not Found']);
    const empty = await app().make.project({}, owner);
    expect(await said(`/projects/${empty.id}/repository/tree`)).toEqual([404, '404 Tree Not Found']);
    const stranger = await app().make.user();
    expect((await app().as(stranger).get(path('/tree'))).body.message).toBe('404 Project Not Found');
    const guest = await app().make.user();
    await app().make.projectMember(project, guest, 10);
    expect((await app().as(guest).get(path('/tree'))).status).toBe(403);
  });
});

describe('a comparison', () => {
  it('shows the changes since two branches diverged, or the difference between two commits', async () => {
    const { owner, project, tree, remote, path, commit } = await filledProject(app(), folder(), { a: '1\n' });
    const base = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'checkout', '-q', '-b', 'side/x');
    await commit({ b: '1\n' }, 'One');
    const side = await commit({ b: '2\n' }, 'Two');
    await runGit(tree, 'checkout', '-q', 'main');
    await commit({ a: '2\n' }, 'On main');
    const client = app().as(owner);
    const compare = async (query: string) => (await client.get(path(`/compare?${query}`))).body;
    const { commit: last, commits, diffs, ...rest } = await compare('from=main&to=side/x');
    expect(last.id).toBe(side);
    expect(commits.map(({ title }: { title: string }) => title)).toEqual(['One', 'Two']);
    expect(diffs).toMatchObject([{ new_path: 'b', new_file: true, diff: '@@ -0,0 +1 @@\n+2\n' }]);
    expect(rest).toEqual({
      compare_timeout: false,
      compare_same_ref: false,
      web_url: `${app().url}/${project.path_with_namespace}/-/compare/main...side%2Fx`,
    });
    const straight = await compare('from=main&to=side/x&straight=true&unidiff=true');
    expect(straight.diffs.map(({ new_path }: { new_path: string }) => new_path)).toEqual(['a', 'b']);
    expect(straight.diffs[0].diff).toBe('--- a/a\n+++ b/a\n@@ -1 +1 @@\n-2\n+1\n');
    expect(await compare('from=main&to=main')).toMatchObject({
      commit: null,
      commits: [],
      diffs: [],
      compare_same_ref: true,
    });
    const missing = await client.get(path('/compare?from=main&to=absent'));
    expect([missing.status, missing.body.message]).toEqual([404, '404 Ref Not Found']);
    expect((await client.get(path('/compare?from=main'))).body.error).toBe('to is missing');

    const mergeBase = (query: string) => client.get(path(`/merge_base?${query}`));
    expect((await mergeBase('refs[]=main&refs[]=side/x')).body.id).toBe(base);
    const alone = await mergeBase('refs[]=main');
    expect([alone.status, alone.body]).toEqual([400, { message: 'Provide at least 2 refs' }]);
    const absent = await mergeBase('refs[]=main&refs[]=absent');
    expect([absent.status, absent.body.message]).toEqual([400, '400 Bad request - Could not find ref: absent']);
    await runGit(tree, 'checkout', '-q', '--orphan', 'other');
    await commit({}, 'Unrelated');
    const none = await mergeBase('refs[]=main&refs[]=other');
    expect([none.status, none.body.message]).toEqual([404, '404 Merge Base Not Found']);
    expect((await compare('from=main&to=other')).commits).toHaveLength(1);
    await runGit(tree, 'push', '-q', remote, ':other');
  });

  it('works with another project if the caller may read both', async () => {
    const one = await filledProject(app(), folder(), { a: '1\n' });
    const other = await app().make.project({ visibility: 'private' }, one.owner);
    const token = await app().tokenOf(one.owner);
    const theirs = `${app().url.replace('://', `://oauth2:${token}@`)}/${other.path_with_namespace}.git`;
    await runGit(one.tree, 'push', '-q', theirs, 'main');
    await runGit(one.tree, 'checkout', '-q', '-b', 'apart');
    await one.commit({ b: '1\n' }, 'Only there');
    const url = `/projects/${other.id}/repository/compare?from=apart&to=main&from_project_id=${one.project.id}`;
    const { status, body } = await app().as(one.owner).get(`${url}&straight=true`);
    expect([status, body.diffs.map(({ new_path }: { new_path: string }) => new_path)]).toEqual([200, ['b']]);
    const member = await app().make.user();
    await app().make.projectMember(other, member, 30);
    const refused = await app().as(member).get(url);
    expect([refused.status, refused.body.message]).toEqual([404, '404 Project Not Found']);
  });

  it('lists the authors of the commits', async () => {
    const { owner, tree, remote, path } = await filledProject(app(), folder(), { a: '1' });
    for (const name of ['Bob', 'Robert', 'Bob']) {
      await runGit(tree, 'commit', '-q', '--allow-empty', '--author', `${name} <bob@example.com>`, '-m', 'x');
    }
    await runGit(tree, 'push', '-q', remote, 'main');
    const client = app().as(owner);
    const ada = { name: 'Ada', email: 'ada@example.com', commits: 2, additions: 0, deletions: 0 };
    const bob = { name: 'Bob', email: 'bob@example.com', commits: 3, additions: 0, deletions: 0 };
    expect((await client.get(path('/contributors'))).body).toEqual([ada, bob]);
    expect((await client.get(path('/contributors?order_by=email&sort=desc'))).body).toEqual([bob, ada]);
    expect((await client.get(path('/contributors?ref=absent'))).status).toBe(404);
    const empty = await app().make.project({}, owner);
    expect((await client.get(`/projects/${empty.id}/repository/contributors`)).body).toEqual([]);
  });
});

const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 5\n`;

describe('GET repository/archive', () => {
  it('packs a commit in each format, with a descriptive file name', async () => {
    const { owner, project, tree, path } = await filledProject(app(), folder(), {
      'docs/a': '1',
      b: '2',
      '.gitattributes': '*.bin filter=lfs\n',
      'large.bin': POINTER,
    });
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    const client = app().as(owner);
    const name = `${project.path}-main-${head}`;
    for (const [url, ending, list] of [
      ['/archive', 'tar.gz', ['tar', 'tzf']],
      ['/archive.tar.gz?sha=main', 'tar.gz', ['tar', 'tzf']],
      ['/archive.zip', 'zip', ['python3', '-m', 'zipfile', '-l']],
      ['/archive?format=tar', 'tar', ['tar', 'tf']],
    ] as const) {
      const answer = await client.fetch('GET', path(url));
      expect([url, answer.status]).toEqual([url, 200]);
      expect(answer.headers.get('content-disposition')).toContain(`attachment; filename="${name}.${ending}"`);
      const file = join(folder(), `archive.${ending}`);
      await writeFile(file, Buffer.from(await answer.arrayBuffer()));
      const { stdout } = await run(list[0], [...list.slice(1), file]);
      expect(stdout).toContain(`${name}/docs/a`);
      expect(stdout).toContain(`${name}/b`);
      const etag = answer.headers.get('etag') ?? '';
      expect((await client.get(path(url), { 'if-none-match': etag })).status).toBe(304);
      expect((await client.head(path(url))).status).toBe(200);
    }
    // The archive is created anew for each request, so it offers no ranges.
    const ranged = await client.fetch('GET', path('/archive.tar'), undefined, { range: 'bytes=0-0' });
    expect([ranged.status, ranged.headers.get('accept-ranges')]).toEqual([200, null]);
    expect((await ranged.arrayBuffer()).byteLength).toBeGreaterThan(512);
    // The hub stores no git LFS files, so their pointers stay.
    for (const query of ['', '?include_lfs_blobs=true', '?include_lfs_blobs=false']) {
      const packed = await client.fetch('GET', path(`/archive.tar${query}`));
      expect(Buffer.from(await packed.arrayBuffer()).toString('latin1')).toContain(POINTER);
    }
    const part = await client.fetch('GET', path(`/archive.tar?path=docs&sha=${head.slice(0, 9)}`));
    const text = Buffer.from(await part.arrayBuffer()).toString('latin1');
    expect(text).toContain(`${project.path}-${head.slice(0, 9)}-${head}-docs/docs/a`);
    expect(text).not.toContain('README.md');
  });

  it('refuses refs and paths that it cannot pack, and callers who may not read the code', async () => {
    const { owner, project, path } = await filledProject(app(), folder(), { a: '1' });
    const client = app().as(owner);
    expect((await client.get(path('/archive.rar'))).status).toBe(400);
    expect((await client.get(path('/archive?sha=absent'))).body.message).toBe('404 File Not Found');
    expect((await client.get(path('/archive?path=absent'))).status).toBe(404);
    for (const hostile of ['../..', '--output=x', '-o', ':(glob)*', 'a\nb']) {
      for (const name of ['path', 'sha']) {
        const { status } = await client.get(path(`/archive?${name}=${encodeURIComponent(hostile)}`));
        // A colon starts an unsupported expression.
        const expected = name === 'sha' && hostile.startsWith(':') ? 400 : 404;
        expect([name, hostile, status]).toEqual([name, hostile, expected]);
      }
    }
    const guest = await app().make.user();
    await app().make.projectMember(project, guest, 10);
    for (const url of [
      '/archive',
      '/archive.zip',
      '/compare?from=main&to=main',
      '/merge_base?refs[]=a&refs[]=b',
      '/contributors',
    ]) {
      expect([url, (await app().anonymous.get(path(url))).status]).toEqual([url, 404]);
      expect([url, (await app().as(guest).get(path(url))).status]).toEqual([url, 403]);
    }
    const empty = await app().make.project({}, owner);
    expect((await client.get(`/projects/${empty.id}/repository/archive`)).status).toBe(404);
  });
});
