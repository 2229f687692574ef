import { readdir, readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { packet } from '#platform/git/http/pkt-line.ts';
import { decodedBody } from '#platform/git/http/request-body.ts';
import type { RefUpdate } from '#platform/git/http.ts';
import {
  commitFile,
  fastImport,
  type GitBench,
  type GitServer,
  openBench,
  runGit,
  startServer,
  tryGit,
  until,
  workTree,
} from './git-support.ts';

let bench: GitBench;
let server: GitServer;
let path: string;
let tree: string;
let counter = 0;

beforeAll(async () => {
  bench = await openBench();
  server = await startServer(bench.git);
});
afterAll(async () => {
  await server.close();
  await bench.close();
});
beforeEach(async () => {
  path = `@hashed/00/${++counter}.git`;
  await bench.git.init(path, 'main');
  tree = await workTree(bench.folder);
  await runGit(tree, 'remote', 'add', 'origin', server.url(path));
  server.results.length = 0;
});
afterEach(() => {
  server.options = {};
});

const directory = () => join(bench.root, path);
const push = (...args: string[]) => tryGit(tree, 'push', 'origin', ...args);
const refs = () => runGit(directory(), 'for-each-ref', '--format=%(refname)');
const lastResult = async () => {
  await until(() => server.results.length > 0);
  return server.results.at(-1);
};

describe('fetching and pushing', () => {
  it('syncs to disk twice for many refs, before and after they are committed', async () => {
    const hook = join(bench.root, '.hooks', 'many-refs', 'reference-transaction');
    const script = await readFile(hook, 'utf8');
    const log = join(bench.folder, 'waits');
    await writeFile(
      hook,
      script.replace('\n', `\necho "$1" >> '${log}'\n`).replaceAll('sync', `echo sync >> '${log}'; sync`),
    );
    const names = Array.from({ length: 100 }, (_, n) => `b${n}`);
    expect((await push(...names.slice(1).map((name) => `main:refs/heads/${name}`))).code).toBe(0);
    await expect(readFile(log)).rejects.toThrow(/ENOENT/);
    expect((await push(...names.map((name) => `main:refs/heads/again/${name}`))).code).toBe(0);
    expect(await readFile(log, 'utf8')).toBe('prepared\nsync\ncommitted\nsync\n');
    await writeFile(hook, '#!/bin/sh\nexit 1\n');
    expect((await push(...names.map((name) => `main:refs/heads/third/${name}`))).code).not.toBe(0);
    expect(await refs()).not.toContain('third');
    await writeFile(hook, script);
  });

  it('works with real git in each protocol version', async () => {
    expect((await push('main')).code).toBe(0);
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    expect(await lastResult()).toEqual({
      updates: [{ ref: 'refs/heads/main', oldOid: null, newOid: first }],
      refused: [],
    });
    for (const version of ['0', '1', '2']) {
      const name = `clone-${counter}-${version}`;
      await runGit(bench.folder, '-c', `protocol.version=${version}`, 'clone', '-q', server.url(path), name);
      expect(await readFile(join(bench.folder, name, 'README.md'), 'utf8')).toBe('# Hello\n');
    }
    const second = await commitFile(tree, 'b', 'b', 'Second');
    await runGit(tree, 'tag', '-a', '-m', 'One', 'v1');
    await push('main', 'v1');
    const clone = join(bench.folder, `clone-${counter}-2`);
    await runGit(clone, 'fetch', '-q', '--tags');
    expect(await runGit(clone, 'rev-parse', 'origin/main')).toBe(second);
    expect(await runGit(clone, 'tag')).toBe('v1');
    await runGit(bench.folder, 'clone', '-q', '--depth=1', server.url(path), `shallow-${counter}`);
    await runGit(bench.folder, 'clone', '-q', '--bare', '--filter=blob:none', server.url(path), `partial-${counter}`);
  });

  it('accepts big pushes, which git sends in chunks after a probe', async () => {
    const chunk = Buffer.alloc(4 * 1024 * 1024);
    for (let at = 0; at < chunk.length; at += 4) chunk.writeUInt32LE(Math.imul(at, 2654435761) >>> 0, at);
    await commitFile(tree, 'big', chunk.toString('latin1'), 'Big');
    expect((await push('main')).code).toBe(0);
    await runGit(bench.folder, 'clone', '-q', server.url(path), `big-${counter}`);
    expect(await runGit(join(bench.folder, `big-${counter}`), 'rev-parse', 'HEAD')).toBe(
      await runGit(tree, 'rev-parse', 'HEAD'),
    );
  });

  it('deletes branches, even the one that HEAD names', async () => {
    await push('main', 'main:other');
    const first = await runGit(tree, 'rev-parse', 'HEAD');
    expect((await push(':main')).code).toBe(0);
    expect(await refs()).toBe('refs/heads/other');
    expect(server.results.at(-1)?.updates).toEqual([{ ref: 'refs/heads/main', oldOid: first, newOid: null }]);
  });

  it('accepts a fetch with many haves, compressed by git', async () => {
    const commits = Array.from(
      { length: 300 },
      (_, n) => `commit refs/heads/b${n}\ncommitter A <a@example.com> ${1700000000 + n} +0000\ndata 1\nx\n`,
    );
    await fastImport(directory(), commits.join(''));
    await runGit(tree, 'fetch', '-q', 'origin');
    await fastImport(directory(), commits.map((commit) => commit.replace('data 1\nx', 'data 1\ny')).join(''));
    await runGit(tree, 'fetch', '-q', 'origin', '+refs/heads/*:refs/remotes/origin/*');
    expect((await runGit(tree, 'branch', '-r')).split('\n')).toHaveLength(300);
  });
});

describe('a push', () => {
  it('is refused as a whole, with the reasons shown', async () => {
    await push('main');
    const asked: RefUpdate[][] = [];
    server.options = {
      onRefUpdates: async (updates) => {
        asked.push([...updates]);
        return {
          refused: updates
            .filter(({ ref }) => ref === 'refs/heads/stable')
            .map(({ ref }) => ({ ref, reason: 'you may not push to this branch\nat all' })),
        };
      },
    };
    const second = await commitFile(tree, 'b', 'b', 'Second');
    const { code, stderr } = await push('main', 'main:stable');
    expect(code).not.toBe(0);
    expect(stderr).toContain('remote: refs/heads/stable: you may not push to this branch at all');
    expect(stderr).toMatch(/\[remote rejected\] main -> stable \(you may not push to this branch at all\)/);
    expect(stderr).toMatch(/\[remote rejected\] main -> main \(refused with the rest of the push\)/);
    expect(asked).toHaveLength(1);
    expect(asked[0]).toContainEqual({ ref: 'refs/heads/stable', oldOid: null, newOid: second });
    expect(await refs()).toBe('refs/heads/main');
    expect((await tryGit(directory(), 'cat-file', '-e', second)).code).not.toBe(0);
    await until(() => server.results.length === 2);
    expect(server.results.at(-1)).toMatchObject({ updates: [], refused: [{ ref: 'refs/heads/stable' }] });
  });

  it('may change only branches, tags and notes with valid names', async () => {
    for (const ref of [
      'refs/merge-requests/1/head',
      `refs/keep-around/${'a'.repeat(40)}`,
      'refs/replace/x',
      'refs/notes',
    ]) {
      expect((await push(`main:${ref}`)).stderr).toContain('only branches, tags and notes can be pushed');
    }
    for (const name of ['a'.repeat(40), 'HEAD', 'refs/heads/x', 'b'.repeat(64)]) {
      expect((await push(`main:refs/heads/${name}`)).stderr).toContain('the name is not valid');
      expect((await push(`main:refs/tags/${name}`)).stderr).toContain('the name is not valid');
      expect((await push(`main:refs/notes/${name}`)).stderr).toContain('the name is not valid');
    }
    expect(await refs()).toBe('');
  });

  it('may not drop commits of a branch that only moves forward', async () => {
    await commitFile(tree, 'b', 'b', 'Second');
    await push('main', 'main:free');
    const before = await runGit(tree, 'rev-parse', 'HEAD');
    server.options = {
      onRefUpdates: async () => ({ fastForwardOnly: ['refs/heads/main', 'refs/heads/new'], messages: ['Hello there'] }),
    };
    await runGit(tree, 'reset', '-q', '--hard', 'HEAD~1');
    const rewritten = await commitFile(tree, 'c', 'c', 'Other second');
    const { code, stderr } = await push('--force', 'main', 'main:free', 'main:new');
    expect(code).not.toBe(0);
    expect(stderr).toContain('remote: refs/heads/main: force push is not allowed');
    expect(await bench.git.resolve(path, 'refs/heads/main')).toBe(before);
    expect(await bench.git.resolve(path, 'refs/heads/free')).toBe(before);
    expect((await tryGit(directory(), 'cat-file', '-e', rewritten)).code).not.toBe(0);
    await until(() => server.results.length === 2);
    expect(server.results.at(-1)).toEqual({
      updates: [],
      refused: [{ ref: 'refs/heads/main', reason: 'force push is not allowed' }],
    });

    const forced = await push('--force', 'main:free', 'main:new');
    expect(forced.code).toBe(0);
    expect(forced.stderr).toContain('remote: Hello there');
    await runGit(tree, 'reset', '-q', '--hard', before);
    await commitFile(tree, 'd', 'd', 'Third');
    expect((await push('main')).code).toBe(0);
    expect((await push(':main')).code).toBe(0);
  });

  it('may not contain a pack that is too large or that fsck rejects', async () => {
    server.options = { maxInputBytes: 100_000 };
    await commitFile(tree, 'big', Array.from({ length: 100_000 }, (_, n) => Math.imul(n, 2654435761)).join(), 'Big');
    expect((await push('main')).stderr).toContain('exceeds maximum allowed size');
    expect(await lastResult()).toMatchObject({ updates: [] });
    server.options = {};
    const blob = await runGit(tree, 'hash-object', '-w', 'README.md');
    const bad = join(bench.folder, `bad-${counter}`);
    await runGit(bench.folder, 'init', '-q', '--bare', bad);
    await fastImport(
      bad,
      `blob\nmark :1\ndata 1\nx\ncommit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\nM 100644 :1 x/.git/config\n`,
    );
    const { code, stderr } = await tryGit(bad, 'push', server.url(path), 'main');
    expect(code).not.toBe(0);
    expect(stderr).toContain('hasDotgit');
    expect(blob).toMatch(/^[0-9a-f]{40}$/);
    expect(await refs()).toBe('');
    expect((await readdir(join(directory(), 'objects'))).filter((name) => name.startsWith('tmp'))).toEqual([]);
  });

  it('hides the keep-around refs', async () => {
    await push('main');
    const oid = await runGit(tree, 'rev-parse', 'HEAD');
    await bench.git.updateRefs(path, [
      { ref: `refs/keep-around/${oid}`, newOid: oid },
      { ref: 'refs/merge-requests/1/head', newOid: oid },
    ]);
    for (const version of ['0', '2']) {
      const listed = await runGit(tree, '-c', `protocol.version=${version}`, 'ls-remote', 'origin');
      expect(listed).toContain('refs/merge-requests/1/head');
      expect(listed).not.toContain('keep-around');
    }
  });
});

describe('a request no git client sends', () => {
  const oid = 'a'.repeat(40);
  const bodies: [string, Buffer][] = [
    ['nothing', Buffer.alloc(0)],
    ['no packet', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['a packet too short', Buffer.from('0003')],
    ['an end too early', Buffer.from('00a0xx')],
    ['a command without a ref', Buffer.concat([packet(`${oid} ${oid}\0report-status`), Buffer.from('0000')])],
    ['a ref that is none', Buffer.concat([packet(`${oid} ${oid} HEAD\0report-status`), Buffer.from('0000')])],
    ['a signed push', Buffer.concat([packet('push-cert\0report-status\n'), Buffer.from('0000')])],
  ];
  it.each(bodies)('is refused before an answer begins: %s', async (_, body) => {
    await expect(bench.git.serve(path, 'git-receive-pack', Readable.from([body]))).rejects.toMatchObject({
      reason: 'invalid',
    });
  });

  it('is refused when it is too long', async () => {
    const line = packet(`${oid} ${oid} refs/heads/${'x'.repeat(200)}`);
    const endless = Readable.from(
      (function* () {
        for (;;) yield Buffer.concat(Array.from({ length: 200 }, () => line));
      })(),
    );
    await expect(bench.git.serve(path, 'git-receive-pack', endless)).rejects.toMatchObject({ reason: 'invalid' });
  });

  it('gets an error from git when it is not a fetch', async () => {
    const { stream, done } = await bench.git.serve(path, 'git-upload-pack', Readable.from([Buffer.from('nonsense')]));
    await text(stream);
    await expect(done).rejects.toMatchObject({ name: 'GitError' });
  });

  it('times out when no more data arrives', async () => {
    const body = new Readable({ read() {} });
    const served = bench.git.serve(path, 'git-upload-pack', body, { idleTimeoutMs: 50 });
    await expect(served).rejects.toMatchObject({ reason: 'timeout' });
    body.destroy();
  });

  it('leaves nothing behind when a push stalls', async () => {
    const body = new Readable({ read() {} });
    const oid = await runGit(tree, 'rev-parse', 'HEAD');
    body.push(packet(`${'0'.repeat(40)} ${oid} refs/heads/main\0report-status`));
    body.push(Buffer.from('0000PACK\0\0\0\u0002\0\0\u0001\0'));
    const { stream, done } = await bench.git.serve(path, 'git-receive-pack', body, { idleTimeoutMs: 300 });
    stream.resume().on('error', () => {});
    await expect(done).rejects.toMatchObject({ reason: 'timeout' });
    expect((await readdir(join(directory(), 'objects'))).filter((name) => name.startsWith('tmp'))).toEqual([]);
    body.destroy();
  });

  it('fails cleanly when the repository does not exist', async () => {
    await expect(bench.git.advertise('no/such.git', 'git-upload-pack').then(buffer)).rejects.toMatchObject({
      name: 'GitError',
    });
  });

  it('may be compressed, but only in known encodings', async () => {
    expect(await text(decodedBody(Readable.from([gzipSync('body')]), 'gzip'))).toBe('body');
    expect(() => decodedBody(Readable.from([]), 'zstd')).toThrow('not supported');
    await expect(text(decodedBody(Readable.from([Buffer.from('no gzip')]), 'gzip'))).rejects.toThrow();
    // Without a listener, an `error` event before anyone reads the stream would end the process.
    const unread = decodedBody(Readable.from([Buffer.from('no gzip')]), 'gzip');
    await until(() => unread.closed);
    await expect(text(unread)).rejects.toThrow('incorrect header check');
  });
});

describe('a client that goes away', () => {
  it('leaves nothing behind during a push', async () => {
    const oid = await runGit(tree, 'rev-parse', 'HEAD');
    const outgoing = request(`${server.url(path)}/git-receive-pack`, { method: 'POST' });
    outgoing.on('error', () => {});
    outgoing.write(
      Buffer.concat([
        packet(`${'0'.repeat(40)} ${oid} refs/heads/main\0report-status`),
        Buffer.from('0000PACK\0\0\0\u0002\0\0\u0001\0'),
      ]),
    );
    await until(async () =>
      (await readdir(join(directory(), 'objects'))).some((name) => name.startsWith('tmp_objdir')),
    );
    outgoing.destroy();
    await until(
      async () => !(await readdir(join(directory(), 'objects'))).some((name) => name.startsWith('tmp_objdir')),
    );
    expect(await refs()).toBe('');
  });

  it('does not undo a push that has arrived completely', async () => {
    const oid = await runGit(tree, 'rev-parse', 'HEAD');
    const pack = await packOf(tree, oid);
    const body = Buffer.concat([
      packet(`${'0'.repeat(40)} ${oid} refs/heads/main\0report-status`),
      Buffer.from('0000'),
      pack,
    ]);
    const gone = new AbortController();
    const served = await bench.git.serve(path, 'git-receive-pack', Readable.from([body]), { signal: gone.signal });
    gone.abort();
    served.stream.destroy();
    expect(await served.done).toEqual({
      updates: [{ ref: 'refs/heads/main', oldOid: null, newOid: oid }],
      refused: [],
    });
    expect(await bench.git.resolve(path, 'refs/heads/main')).toBe(oid);
  });

  it('has its push recorded even if it wants no report', async () => {
    const oid = await runGit(tree, 'rev-parse', 'HEAD');
    const head = packet(`${'0'.repeat(40)} ${oid} refs/heads/main\0delete-refs`);
    const body = Buffer.concat([head, Buffer.from('0000'), await packOf(tree, oid)]);
    const served = await bench.git.serve(path, 'git-receive-pack', Readable.from([body]));
    served.stream.resume();
    expect((await served.done).updates).toHaveLength(1);
  });
});

const packOf = async (repository: string, oid: string): Promise<Buffer> => {
  const objects = await runGit(repository, 'rev-list', '--objects', '--no-object-names', oid);
  await runGit(
    repository,
    'config',
    'alias.packed',
    `!printf '%s\\n' ${objects.split('\n').join(' ')} | git pack-objects -q out`,
  );
  const name = await runGit(repository, 'packed');
  return readFile(join(repository, `out-${name}.pack`));
};
