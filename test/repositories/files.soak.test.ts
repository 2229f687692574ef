import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { filledProject } from './reading-support.ts';
import { runGit, useFolder } from './support.ts';

const app = useApp();
const folder = useFolder();

const setUp = (files: Record<string, string | Buffer> = {}, attributes: Record<string, unknown> = {}) =>
  filledProject(app(), folder(), files, attributes);

const strangersSee = async (url: string) => {
  const stranger = await app().make.user();
  return [(await app().anonymous.get(url)).status, (await app().as(stranger).get(url)).status];
};

describe('GET repository/files', () => {
  it('shows all fields of a file, in JSON and in headers', async () => {
    const { owner, tree, path } = await setUp({ 'docs/ü 100%.md': 'Hä?\n' });
    await runGit(tree, 'update-index', '--chmod=+x', 'docs/ü 100%.md');
    const client = app().as(owner);
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    const url = path(`/files/${encodeURIComponent('docs/ü 100%.md')}?ref=main`);
    const { status, body, headers } = await client.get(url);
    const checksum = createHash('sha256').update('Hä?\n').digest('hex');
    const blob = await runGit(tree, 'rev-parse', 'HEAD:docs/ü 100%.md');
    expect([status, body]).toEqual([
      200,
      {
        file_name: 'ü 100%.md',
        file_path: 'docs/ü 100%.md',
        size: 5,
        encoding: 'base64',
        content_sha256: checksum,
        ref: 'main',
        blob_id: blob,
        commit_id: head,
        last_commit_id: head,
        execute_filemode: false,
        content: Buffer.from('Hä?\n').toString('base64'),
      },
    ]);
    const shown = (answer: { headers: Headers }) =>
      Object.fromEntries([...answer.headers].filter(([name]) => name.startsWith('x-gitlab-')));
    const expected = {
      'x-gitlab-blob-id': blob,
      'x-gitlab-commit-id': head,
      'x-gitlab-content-sha256': checksum,
      'x-gitlab-encoding': 'base64',
      'x-gitlab-execute-filemode': 'false',
      'x-gitlab-file-name': '%C3%BC 100%25.md',
      'x-gitlab-file-path': 'docs/%C3%BC 100%25.md',
      'x-gitlab-last-commit-id': head,
      'x-gitlab-ref': 'main',
      'x-gitlab-size': '5',
    };
    expect(shown({ headers })).toEqual(expected);
    const byHead = await client.head(url);
    expect([byHead.status, byHead.body, shown(byHead)]).toEqual([200, '', expected]);
    expect(shown(await client.head(url.replace('?', '/raw?')))).toEqual(expected);
    expect(shown(await client.head(url.replace('?', '/blame?')))).toEqual(expected);
    const readme = await client.get(path('/files/README.md?ref=HEAD'));
    expect(readme.body.last_commit_id).toBe(await runGit(tree, 'rev-parse', 'HEAD~1'));
  });

  it('reads at a branch, tag, commit or full ref name, and names the missing part', async () => {
    const { owner, tree, remote, path, commit } = await setUp({ a: 'one' });
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'tag', '-a', 'v1', '-m', 'One');
    await runGit(tree, 'push', '-q', remote, 'v1', 'main:refs/heads/feature/x');
    await commit({ a: 'two' }, 'Second');
    const client = app().as(owner);
    const contentAt = async (ref: string) =>
      (await client.get(path(`/files/a/raw?ref=${encodeURIComponent(ref)}`))).body;
    expect(await Promise.all(['main', 'HEAD', 'refs/heads/main'].map(contentAt))).toEqual(['two', 'two', 'two']);
    const old = [first, first.slice(0, 8), 'v1', 'refs/tags/v1', 'feature/x', 'refs/heads/feature/x'];
    expect(await Promise.all(old.map(contentAt))).toEqual(old.map(() => 'one'));
    expect((await client.get(path('/files/a/raw'))).body).toBe('two');

    const missing = async (rest: string) => {
      const { status, body } = await client.get(path(rest));
      return [status, body.message ?? body.error];
    };
    expect(await missing('/files/absent?ref=main')).toEqual([404, '404 File Not Found']);
    expect(await missing('/files/a?ref=absent')).toEqual([404, '404 Commit Not Found']);
    expect(await missing('/files/a?ref=refs/heads/absent')).toEqual([404, '404 Commit Not Found']);
    expect(await missing('/files/a/raw?ref=absent')).toEqual([404, '404 Commit Not Found']);
    expect(await missing('/files/a')).toEqual([400, 'ref is missing']);
    const empty = await app().make.project({}, owner);
    const { body } = await client.get(`/projects/${empty.id}/repository/files/a?ref=main`);
    expect(body.message).toBe('404 Commit Not Found');
  });

  it('serves a raw file as harmless text, and answers 304 for a known ETag', async () => {
    const page = '<script>alert(1)</script>';
    const { owner, path } = await setUp({ 'page.html': page });
    const client = app().as(owner);
    const { status, body, headers } = await client.get(path('/files/page%2Ehtml/raw'));
    expect([status, body]).toEqual([200, page]);
    expect(headers.get('content-type')).toBe('text/plain');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).toBe("default-src 'none'; sandbox");
    expect(headers.get('content-disposition')).toContain('inline; filename="page.html"');
    const etag = headers.get('etag') ?? '';
    const again = await client.get(path('/files/page%2Ehtml/raw'), { 'if-none-match': etag });
    expect([again.status, again.body]).toEqual([304, '']);
    const other = await client.get(path('/files/page%2Ehtml/raw'), { 'if-none-match': '"other"' });
    expect(other.status).toBe(200);
  });

  it('serves a byte range', async () => {
    const large = Buffer.alloc(3 * 1024 * 1024, '0123456789abcdef-');
    const { owner, path } = await setUp({ small: '0123456789', large, empty: '' });
    const client = app().as(owner);
    const ask = async (name: string, headers: Record<string, string>) => {
      const answer = await client.get(path(`/files/${name}/raw`), headers);
      const { headers: shown } = answer;
      return [answer.status, shown.get('content-range'), shown.get('content-length'), answer.body];
    };
    const whole = await client.get(path('/files/small/raw'));
    expect([whole.headers.get('accept-ranges'), whole.headers.get('content-range')]).toEqual(['bytes', null]);
    expect(await ask('small', { range: 'bytes=2-4' })).toEqual([206, 'bytes 2-4/10', '3', '234']);
    expect(await ask('small', { range: 'bytes=7-' })).toEqual([206, 'bytes 7-9/10', '3', '789']);
    expect(await ask('small', { range: 'bytes=-2' })).toEqual([206, 'bytes 8-9/10', '2', '89']);
    expect(await ask('small', { range: 'bytes=0-99' })).toEqual([206, 'bytes 0-9/10', '10', '0123456789']);
    // Anything but a single valid range is ignored.
    for (const range of ['bytes=4-2', 'bytes=0-1,3-4', 'lines=1-2', 'bytes=-', 'bytes=a-b']) {
      expect([range, (await ask('small', { range }))[0]]).toEqual([range, 200]);
    }
    const refusal = { error: '416 Range Not Satisfiable' };
    expect(await ask('small', { range: 'bytes=10-' })).toEqual([416, 'bytes */10', expect.anything(), refusal]);
    expect((await ask('small', { range: 'bytes=-0' }))[0]).toBe(416);
    expect((await ask('empty', { range: 'bytes=0-' }))[0]).toBe(416);
    const etag = whole.headers.get('etag') ?? '';
    expect((await ask('small', { range: 'bytes=0-0', 'if-range': etag }))[0]).toBe(206);
    expect((await ask('small', { range: 'bytes=0-0', 'if-range': '"other"' }))[0]).toBe(200);
    const head = await client.request('HEAD', path('/files/small/raw'), undefined, { range: 'bytes=0-1' });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '10']);
    // This range spans several chunks of output from git.
    const [start, end] = [1_000_001, 2_000_005];
    const part = large.subarray(start, end + 1).toString();
    const shown = [206, `bytes ${start}-${end}/${large.length}`, String(part.length), part];
    expect(await ask('large', { range: `bytes=${start}-${end}` })).toEqual(shown);
    const { blob_id } = (await client.get(path('/files/small?ref=main'))).body;
    const blob = await client.get(path(`/blobs/${blob_id}/raw`), { range: 'bytes=1-1' });
    expect([blob.status, blob.body]).toEqual([206, '1']);
    expect((await app().anonymous.get(path('/files/small/raw'), { range: 'bytes=0-0' })).status).toBe(404);
  });

  it('streams large files, keeps them out of JSON, and serves binary content unchanged', async () => {
    const large = Buffer.alloc(21 * 1024 * 1024, 'abc\0\xff', 'latin1');
    const { owner, path } = await setUp({ large, middle: large.subarray(0, 3 * 1024 * 1024) });
    const client = app().as(owner);
    const refused = await client.get(path('/files/large?ref=main'));
    expect([refused.status, refused.body.message]).toEqual([413, expect.stringContaining('raw')]);
    const raw = await client.fetch('GET', `${path('/files/large/raw')}`);
    expect(raw.headers.get('x-gitlab-size')).toBe(String(large.length));
    expect(raw.headers.get('x-gitlab-content-sha256')).toBeNull();
    expect(Buffer.from(await raw.arrayBuffer()).equals(large)).toBe(true);
    const middle = await client.get(path('/files/middle?ref=main'));
    expect(Buffer.from(middle.body.content, 'base64').equals(large.subarray(0, 3 * 1024 * 1024))).toBe(true);
    const blamed = await client.get(path('/files/large/blame?ref=main'));
    expect(blamed.status).toBe(413);
  });

  it('shows who last changed each line', async () => {
    const { owner, tree, path, commit } = await setUp({ poem: 'one\ntwo\nthree\n' });
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    const second = await commit({ poem: 'one\n2\nthree\n' }, 'Second\n\nWith a body');
    const client = app().as(owner);
    const { status, body } = await client.get(path('/files/poem/blame?ref=main'));
    expect(status).toBe(200);
    // biome-ignore lint/suspicious/noExplicitAny: bodies of answers
    const parts = (all: any) => all.map(({ commit, lines }: any) => [commit.id, lines]);
    expect(parts(body)).toEqual([
      [first, ['one']],
      [second, ['2']],
      [first, ['three']],
    ]);
    expect(body[1].commit).toMatchObject({
      parent_ids: [first],
      author_name: 'Ada',
      message: 'Second\n\nWith a body\n',
    });
    const range = (query: string) => client.get(path(`/files/poem/blame?ref=main&${query}`));
    expect(parts((await range('range[start]=2&range[end]=2')).body)).toEqual([[second, ['2']]]);
    expect((await range('range[start]=9&range[end]=10')).body).toEqual([]);
    expect((await range('range[start]=3&range[end]=2')).status).toBe(400);
    expect((await range('range[start]=0&range[end]=2')).status).toBe(400);
    expect((await range('range[start]=1')).status).toBe(400);
    expect((await client.get(path('/files/absent/blame?ref=main'))).body.message).toBe('404 File Not Found');
  });

  it('serves blobs by id, and no other objects', async () => {
    const { owner, tree, remote, path } = await setUp({ a: 'blob content' });
    const client = app().as(owner);
    const id = await runGit(tree, 'rev-parse', 'HEAD:a');
    expect((await client.get(path(`/blobs/${id}`))).body).toEqual({
      size: 12,
      encoding: 'base64',
      content: Buffer.from('blob content').toString('base64'),
      sha: id,
    });
    const raw = await client.get(path(`/blobs/${id.slice(0, 10)}/raw`));
    expect([raw.body, raw.headers.get('content-type'), raw.headers.get('content-security-policy')]).toEqual([
      'blob content',
      'text/plain',
      "default-src 'none'; sandbox",
    ]);
    await runGit(tree, 'push', '-q', remote, 'main:refs/heads/abcdef1');
    const head = await runGit(tree, 'rev-parse', 'HEAD');
    for (const other of [head, 'main', 'abcdef1', 'f'.repeat(40), 'HEAD:a', '-e']) {
      const { status, body } = await client.get(path(`/blobs/${encodeURIComponent(other)}`));
      expect([other, status, body.message]).toEqual([other, 404, '404 Blob Not Found']);
    }
  });

  it('answers 404 for the content of a git LFS file', async () => {
    const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 5\n';
    const { owner, path } = await setUp({ big: pointer, small: 'plain' });
    const client = app().as(owner);
    expect((await client.get(path('/files/big/raw'))).body).toBe(pointer);
    expect((await client.get(path('/files/big/raw?lfs=true'))).status).toBe(404);
    expect((await client.get(path('/files/small/raw?lfs=true'))).body).toBe('plain');
  });

  it('requires the right to read the code', async () => {
    const { project, path } = await setUp({ a: 'secret' });
    const guest = await app().make.user();
    await app().make.projectMember(project, guest, 10);
    const reporter = await app().make.user();
    await app().make.projectMember(project, reporter, 20);
    const urls = [
      '/files/a?ref=main',
      '/files/a/raw',
      '/files/a/blame?ref=main',
      '/blobs/abcdef1',
      '/blobs/abcdef1/raw',
    ];
    for (const url of urls) {
      expect(await strangersSee(path(url))).toEqual([404, 404]);
      expect([url, (await app().as(guest).get(path(url))).status]).toEqual([url, 403]);
    }
    expect((await app().as(reporter).get(path('/files/a/raw'))).body).toBe('secret');
    expect((await app().as(reporter, ['read_repository']).get(path('/files/a/raw'))).body).toBe('secret');
    expect((await app().as(reporter, ['read_repository']).get(path('/tree'))).status).toBe(403);

    const open = await setUp({ a: 'public' }, { visibility: 'public' });
    expect((await app().anonymous.get(open.path('/files/a/raw'))).body).toBe('public');
    await app().as(open.owner).put(`/projects/${open.project.id}`, { repository_access_level: 'private' });
    expect(await strangersSee(open.path('/files/a/raw'))).toEqual([404, 404]);
    await app().as(open.owner).put(`/projects/${open.project.id}`, { repository_access_level: 'disabled' });
    expect((await app().as(open.owner).get(open.path('/files/a/raw'))).status).toBe(404);
  });
});
