import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { importProject } from '#domains/transfers/jobs.ts';
import { createGit } from '#platform/git/git.ts';
import { createLogger } from '#platform/log.ts';
import { encrypt } from '#platform/secrets.ts';
import { commitFile, remoteOf, runGit, useFolder, workTree } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import { until } from '../support/until.ts';
import { ADVERTISEMENT, packet, RESULT, useServers } from './git-server.ts';
import { importArchive } from './support.ts';

const app = useApp();
const folder = useFolder();

const settings = (changes: Record<string, unknown>) => app().as(app().root).put('/application/settings', changes);
beforeAll(async () => {
  expect((await settings({ allow_local_requests_from_web_hooks_and_services: true })).status).toBe(200);
});

const { serve, serveGit } = useServers();

let count = 0;
const create = (user: TestUser, import_url: string, more: Record<string, unknown> = {}) => {
  const path = `imported${++count}`;
  return app()
    .as(user)
    .post('/projects', { path, name: path, import_url, ...more });
};
/** Creates the import, waits for its end, and returns the project. */
const importFrom = async (user: TestUser, import_url: string, more: Record<string, unknown> = {}) => {
  const { status, body } = await create(user, import_url, more);
  expect([status, body.import_status], JSON.stringify(body)).toEqual([201, 'scheduled']);
  await app().settle();
  return (await app().as(user).get(`/projects/${body.id}`)).body;
};

const OID = '1'.repeat(40);
const advertisement = (refs: readonly string[], capabilities = 'side-band-64k ofs-delta') =>
  `${packet('# service=git-upload-pack\n')}0000${refs
    .map((ref, index) => packet(`${ref}${index === 0 ? `\0${capabilities}` : ''}\n`))
    .join('')}0000`;
/** Starts a server that answers the first request with `refs`, and the second one with `answer`. */
const saying = (refs: string, answer: (response: ServerResponse) => void = (response) => response.end()) =>
  serve((request, response) => {
    request.resume();
    if (request.method === 'GET') response.writeHead(200, { 'content-type': ADVERTISEMENT }).end(refs);
    else answer(response.writeHead(200, { 'content-type': RESULT }));
  });

const leftovers = async (projectId: number): Promise<readonly string[]> => {
  const { services } = app().hub;
  const row = await services.db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', projectId)
    .executeTakeFirstOrThrow();
  const place = join(services.config.dataDir, 'repositories', row.disk_path, '..');
  return (await readdir(place)).filter((name) => name.includes('.incoming-'));
};

describe('a project from import_url', () => {
  it('gets the branches and tags, and never shows the credentials', async () => {
    const owner = await app().make.user();
    const source = await app().make.project({ visibility: 'private' }, owner);
    const tree = await workTree(folder(), 'trunk');
    await runGit(tree, 'tag', '-a', 'v1', '-m', 'One');
    await runGit(tree, 'checkout', '-q', '-b', 'a-topic');
    await commitFile(tree, 'topic.txt', 'topic\n', 'On a topic');
    await runGit(tree, 'push', '-q', await remoteOf(app(), source, owner), 'trunk', 'a-topic', 'v1');
    await app().settle();
    const token = await app().tokenOf(owner);
    const importer = await app().make.user();
    const url = await remoteOf(app(), source, owner);
    const project = await importFrom(importer, url, { visibility: 'public' });
    const shown = `${app().url}/${source.path_with_namespace}.git`;
    expect(project).toMatchObject({
      import_status: 'finished',
      import_type: 'git',
      import_url: shown,
      import_error: null,
      empty_repo: false,
      default_branch: 'trunk',
      visibility: 'public',
    });
    expect(project.readme_url).toContain('README.md');
    const refs = await runGit(folder(), 'ls-remote', await remoteOf(app(), project, importer));
    expect(refs).toBe(await runGit(folder(), 'ls-remote', url));
    const client = app().as(importer);
    expect((await client.get(`/projects/${project.id}/protected_branches`)).body).toMatchObject([{ name: 'trunk' }]);
    expect((await client.get(`/projects/${project.id}?statistics=true`)).body.statistics.commit_count).toBe(1);
    expect((await client.get('/projects?imported=true')).body).toMatchObject([{ id: project.id }]);
    const status = (await client.get(`/projects/${project.id}/import`)).body;
    expect(status).toMatchObject({ import_status: 'finished', import_type: 'git', failed_relations: [] });

    // Only administrators of the project see the URL, and nobody sees the credentials.
    const { body: seen } = await app().as(owner).get(`/projects/${project.id}`);
    expect([seen.import_url, seen.import_type]).toEqual([null, 'git']);
    const { pool } = app().hub.services;
    for (const table of ['projects', 'project_imports', 'events', 'graphile_worker._private_jobs']) {
      const { rows } = await pool.query(`select 1 from ${table} t where t::text like '%' || $1 || '%'`, [token]);
      expect(rows).toEqual([]);
    }
    const { rows } = await pool.query('select source_url from project_imports where project_id = $1', [project.id]);
    expect(rows).toEqual([{ source_url: null }]);
    const { rows: events } = await pool.query(
      `select kind from events where project_id = $1 and kind like 'import.%' order by id`,
      [project.id],
    );
    expect(events[0]).toEqual({ kind: 'import.scheduled' });
    expect(events.at(-1)).toEqual({ kind: 'import.finished' });

    // The cloned project can be forked like any other.
    const forked = await app().as(owner).post(`/projects/${project.id}/fork`);
    await app().settle();
    expect((await app().as(owner).get(`/projects/${forked.body.id}`)).body.import_status).toBe('finished');
  });

  it('can be empty', async () => {
    const owner = await app().make.user();
    const source = await app().make.project({}, owner);
    const project = await importFrom(owner, await remoteOf(app(), source, owner));
    expect(project).toMatchObject({ import_status: 'finished', empty_repo: true });
  });

  it('omits invalid ref names', async () => {
    const tree = await workTree(folder());
    const hex = 'a'.repeat(40);
    await runGit(tree, 'update-ref', `refs/heads/${hex}`, 'HEAD');
    await runGit(tree, 'update-ref', 'refs/pull/1/head', 'HEAD');
    await runGit(tree, 'update-ref', 'refs/tags/ok', 'HEAD');
    const user = await app().make.user();
    const project = await importFrom(user, await serveGit(join(tree, '.git')));
    expect(project.import_status, project.import_error).toBe('finished');
    const refs = await runGit(folder(), 'ls-remote', await remoteOf(app(), project, user));
    expect(refs.split('\n').map((line) => line.split('\t')[1])).toEqual(['HEAD', 'refs/heads/main', 'refs/tags/ok']);
  });

  it('follows a few redirects to a repository, and sends the credentials to no other server', async () => {
    const owner = await app().make.user();
    const source = await app().make.project({ visibility: 'public', initialize_with_readme: true }, owner);
    const seen: (string | undefined)[] = [];
    const target = await serveGit(await directoryOf(source.id), {
      onRequest: ({ headers }) => seen.push(headers.authorization),
    });
    const first = await serve((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(301, { location: `${target}${request.url?.replace('/old.git', '')}` }).end();
    });
    const project = await importFrom(owner, `${first.replace('http://', 'http://me:secret@')}/old.git`);
    expect(project).toMatchObject({ import_status: 'finished', import_url: `${first}/old.git` });
    expect(seen[0]).toMatch(/^Basic /);
    expect(seen.slice(1)).toEqual([undefined, undefined]);
  });
});

describe('an import URL', () => {
  it.each([
    ['git://127.0.0.1/x.git', 'only http and https'],
    ['ssh://git@127.0.0.1/x.git', 'only http and https'],
    ['git@host:x.git', 'not valid'],
    ['ext::sh -c touch% /tmp/x', 'only http and https'],
    ['file:///etc/passwd', 'only http and https'],
    ['/etc/passwd', 'not valid'],
    ['--upload-pack=touch', 'not valid'],
    ['http://127.0.0.1:22/x.git', 'port 22'],
    ['http://169.254.169.254/x.git', 'never allowed'],
    ['http://[::ffff:169.254.169.254]/x.git', 'never allowed'],
    ['http://0/x.git', 'never allowed'],
    ['http://127.0.0.1/x.git?a=b', 'must have no query'],
    ['http://no-such-host.invalid/x.git', 'could not be resolved'],
  ])('%s is refused', async (url, problem) => {
    const user = await app().make.user();
    const { status, body } = await create(user, url);
    expect(status).toBe(400);
    expect(body.message.import_url[0]).toContain(problem);
    expect((await app().as(user).get('/projects?owned=true')).body).toEqual([]);
  });

  it('is allowed in the local network only by the settings, which are checked at each request', async () => {
    const user = await app().make.user();
    await settings({ allow_local_requests_from_web_hooks_and_services: false });
    try {
      for (const host of [
        '127.0.0.1',
        '127.1',
        '2130706433',
        '0x7f.1',
        'localhost',
        'localhost.',
        '[::1]',
        '10.0.0.1',
      ]) {
        const { status, body } = await create(user, `http://${host}:8080/x.git`);
        expect([host, status, body.message.import_url?.[0]]).toEqual([
          host,
          400,
          'URL is blocked: requests to the local network are not allowed',
        ]);
      }
      // Local requests were allowed when the import was created, but not when the job runs.
      const asked: string[] = [];
      const url = await serve((request, response) => {
        asked.push(request.url ?? '');
        response.end();
      });
      await settings({ allow_local_requests_from_web_hooks_and_services: true });
      const { db } = app().hub.services;
      const made = await create(user, `${url}/x.git`);
      await app().settle();
      asked.length = 0;
      await settings({ allow_local_requests_from_web_hooks_and_services: false });
      const row = await db
        .updateTable('project_imports')
        .set({ status: 'scheduled', source_url: encrypt(app().hub.services.secretKey, `${url}/x.git`) })
        .where('project_id', '=', made.body.id)
        .returning('id')
        .executeTakeFirstOrThrow();
      await app()
        .context()
        .transaction(async (tx) => tx.enqueue(importProject, { import_id: row.id }));
      await app().settle();
      expect((await app().as(user).get(`/projects/${made.body.id}/import`)).body).toMatchObject({
        import_status: 'failed',
        import_error:
          'The repository could not be fetched: URL is blocked: requests to the local network are not allowed.',
      });
      expect(asked).toEqual([]);
    } finally {
      await settings({ allow_local_requests_from_web_hooks_and_services: true });
    }
  });

  it('cannot be combined with other initial content, and cannot be changed later', async () => {
    const user = await app().make.user();
    expect((await create(user, 'http://127.0.0.1/x.git', { initialize_with_readme: true })).status).toBe(400);
    expect((await create(user, 'http://127.0.0.1/x.git', { default_branch: 'x' })).status).toBe(400);
    const project = await app().make.project({}, user);
    const changed = await app().as(user).put(`/projects/${project.id}`, { import_url: 'http://127.0.0.1/x.git' });
    expect([changed.status, JSON.stringify(changed.body)]).toEqual([400, expect.stringContaining('import_url')]);
  });

  it('is limited by the settings, by the right to create projects, and by the rate limit', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({ visibility: 'public' }, owner);
    const stranger = await app().make.user();
    const url = 'http://127.0.0.1:1/x.git';
    expect((await create(stranger, url, { namespace_id: group.id })).status).toBe(403);
    expect((await app().anonymous.post('/projects', { name: 'x', import_url: url })).status).toBe(401);
    await settings({ import_sources: ['git'] });
    const archive = await importArchive(app(), owner, Buffer.from('x'), { path: 'archive' });
    expect([archive.status, archive.body.message]).toEqual([
      403,
      '403 Forbidden - imports of archives are turned off on this instance',
    ]);
    await settings({ import_sources: ['gitlab_project'] });
    expect((await create(owner, url)).status).toBe(403);
    await settings({ import_sources: ['git', 'gitlab_project'], project_import_limit: 1 });
    const limited = [await create(owner, url), await create(owner, url)];
    expect(limited.map(({ status }) => status)).toEqual([400, 429]);
    await settings({ project_import_limit: 0 });
    // Administrators can import for other users.
    const forOther = await app()
      .as(app().root)
      .post(`/projects/user/${stranger.id}`, { name: 'for-other', import_url: await saying(advertisement([])) });
    expect(forOther.body).toMatchObject({ import_status: 'scheduled', namespace: { full_path: stranger.username } });
    await app().settle();
  });
});

describe('a user', () => {
  it('is limited in concurrent imports by URL, without affecting other users', async () => {
    const [many, few] = [await app().make.user(), await app().make.user()];
    await settings({ concurrent_url_imports_limit: 2 });
    const url = await saying(advertisement([]));
    const { db } = app().hub.services;
    // Keep the import running, as with a slow server. Its date keeps it from counting as abandoned.
    const running = { status: 'started', created_at: '2999-01-01' };
    const waiting = async () => {
      const answer = await create(many, url);
      await app().settle();
      await db.updateTable('project_imports').set(running).where('project_id', '=', answer.body.id).execute();
      return answer;
    };
    const [first, second] = [await waiting(), await waiting()];
    expect([first.status, second.status]).toEqual([201, 201]);
    const refused = await create(many, url, { path: 'refused', name: 'refused' });
    expect([refused.status, refused.body]).toEqual([
      429,
      {
        message: {
          error: expect.stringContaining('is 2 for each user (concurrent_url_imports_limit)'),
        },
      },
    ]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    // The refused request has created nothing.
    expect((await app().as(many).get(`/projects/${many.username}%2Frefused`)).status).toBe(404);
    expect((await create(few, url)).status).toBe(201);
    await db
      .updateTable('project_imports')
      .set({ status: 'finished' })
      .where('project_id', '=', first.body.id)
      .execute();
    expect((await create(many, url)).status).toBe(201);
    await settings({ concurrent_url_imports_limit: 20 });
    await db.updateTable('project_imports').set({ status: 'finished' }).where('user_id', '=', many.id).execute();
  });
});

describe('a server that', () => {
  const failing: readonly (readonly [string, () => Promise<string>, string])[] = [
    [
      'wants other credentials',
      () => serve((_, response) => response.writeHead(401).end()),
      'does not let these credentials',
    ],
    ['has no repository', () => serve((_, response) => response.writeHead(404).end()), 'has no repository'],
    ['is no git server', () => serve((_, response) => response.end('<html>')), "does not speak git's smart HTTP"],
    ['breaks down', () => serve((_, response) => response.writeHead(500).end()), 'answered 500'],
    ['hangs up', () => serve((request) => request.socket.destroy()), 'could not be fetched'],
    [
      'redirects to an inner address',
      () =>
        serve((request, response) =>
          response.writeHead(302, { location: `http://169.254.169.254${request.url}` }).end(),
        ),
      'its address is never allowed',
    ],
    [
      'redirects to a port of something else',
      () =>
        serve((request, response) => response.writeHead(302, { location: `http://127.0.0.1:22${request.url}` }).end()),
      'port 22 is not allowed',
    ],
    [
      'redirects to another scheme',
      () => serve((request, response) => response.writeHead(302, { location: `file://${request.url}` }).end()),
      'redirects to something other than',
    ],
    [
      'redirects to something other than',
      () => serve((_, response) => response.writeHead(302, { location: '/admin' }).end()),
      'redirects to something other than',
    ],
    [
      'redirects in a circle',
      () => serve((request, response) => response.writeHead(302, { location: request.url ?? '' }).end()),
      'redirects too often',
    ],
    ['talks nonsense', () => saying('zzzz'), 'not in the git protocol'],
    [
      'sends half an advertisement',
      () => saying(advertisement([`${OID} refs/heads/main`]).slice(0, -20)),
      'ends too early',
    ],
    ['has SHA-256 objects', () => saying(advertisement([`${'1'.repeat(64)} refs/heads/main`])), 'SHA-256'],
    ['refuses', () => saying(packet('ERR go \u001b[31maway\n')), 'The server refused: go [31maway'],
    [
      'sends no pack',
      () => saying(advertisement([`${OID} refs/heads/main`]), (response) => response.end(`${packet('NAK\n')}0000`)),
      'is broken',
    ],
    [
      'sends something else than a pack',
      () =>
        saying(advertisement([`${OID} refs/heads/main`]), (response) =>
          response.end(`${packet('NAK\n')}${packet(`\u0001${'x'.repeat(2_000)}`)}0000`),
        ),
      'is broken',
    ],
    [
      'stops in the middle',
      () =>
        saying(advertisement([`${OID} refs/heads/main`]), (response) =>
          response.end(`${packet('NAK\n')}${packet('\u0001PACK')}`),
        ),
      'could not be',
    ],
  ];
  it.each(failing)('%s fails the import with a plain reason', async (what, start, problem) => {
    const user = await app().make.user();
    const address = await start();
    const project = await importFrom(user, `${address.replace('http://', 'http://me:geheim@')}/x.git`);
    expect(project).toMatchObject({ import_status: 'failed', empty_repo: true });
    expect(project.import_error).toContain(problem);
    expect(project.import_error).not.toMatch(/geheim|\/tmp|repositories|\n|\p{Cc}/u);
    expect(await leftovers(project.id)).toEqual([]);
    const { rows } = await app().hub.services.pool.query(
      'select source_url from project_imports where project_id = $1',
      [project.id],
    );
    expect(rows).toEqual([{ source_url: null }]);
    // The failed project works like any other: it accepts a push and can be deleted.
    const tree = await workTree(folder());
    // Before and after the pack begins, one push by git is enough.
    if (what === 'has no repository' || what === 'stops in the middle')
      await runGit(tree, 'push', '-q', await remoteOf(app(), project, user), 'main');
    else await pushTree(app(), project, user, tree, 'main');
    expect((await app().as(user).get(`/projects/${project.id}`)).body).toMatchObject({ empty_repo: false });
    expect((await app().as(user).delete(`/projects/${project.id}`)).status).toBe(202);
  });

  it('never stops sending is cut off at the size limit', async () => {
    await settings({ max_decompressed_archive_size: 1 });
    let stopped = false;
    const endless = await saying(advertisement([`${OID} refs/heads/main`]), (response) => {
      response.write(packet('NAK\n'));
      // The pack announces 2^32 - 1 objects, and a first blob of about four gigabytes.
      response.write(packet(`\u0001PACK\0\0\0\u0002`));
      const chunk = Buffer.concat([Buffer.from('fff0'), Buffer.from([1]), Buffer.alloc(65_515, 7)]);
      const more = () => {
        while (!stopped && response.write(chunk));
      };
      response.on('drain', more).on('close', () => {
        stopped = true;
      });
      more();
    });
    const user = await app().make.user();
    const project = await importFrom(user, `${endless}/x.git`);
    expect(project.import_status).toBe('failed');
    expect(project.import_error).toMatch(/too large|larger than|is broken|needs more memory/);
    await until('the server is let go', () => stopped);
    expect(await leftovers(project.id)).toEqual([]);

    // A valid repository above the limit is refused too.
    const tree = await workTree(folder());
    await commitFile(tree, 'big.txt', randomBytes(1_500_000).toString('hex'), 'Much');
    const large = await importFrom(user, await serveGit(join(tree, '.git')));
    expect([large.import_status, large.import_error]).toEqual([
      'failed',
      expect.stringMatching(/too large|larger than/),
    ]);
    await settings({ max_decompressed_archive_size: 25_600 });
    expect((await importFrom(user, await serveGit(join(tree, '.git')))).import_status).toBe('finished');
  });

  it('sends endless messages is cut off', async () => {
    let stopped = false;
    const endless = await saying(advertisement([`${OID} refs/heads/main`]), (response) => {
      response.write(packet('NAK\n'));
      const chunk = Buffer.concat([Buffer.from('fff0'), Buffer.from([2]), Buffer.alloc(65_515, 46)]);
      const more = () => {
        while (!stopped && response.write(chunk));
      };
      response.on('drain', more).on('close', () => {
        stopped = true;
      });
      more();
    });
    const project = await importFrom(await app().make.user(), `${endless}/x.git`);
    expect(project.import_error).toContain('it sends too many messages');
    await until('the server is let go', () => stopped);
  });

  it('stays silent for long does not delay forks', async () => {
    const waiting: ServerResponse[] = [];
    const slow = await serve((_request, response) => void waiting.push(response));
    const user = await app().make.user();
    const projects: number[] = [];
    for (let number = 0; number < 4; number++) projects.push((await create(user, `${slow}/x.git`)).body.id);
    await until('some are being asked', () => waiting.length >= 3);
    const source = await app().make.project({ initialize_with_readme: true }, user);
    const name = `fork${++count}`;
    const fork = await app().as(user).post(`/projects/${source.id}/fork`, { name, path: name });
    expect(fork.status).toBe(201);
    const statusOf = async (id: number) => (await app().as(user).get(`/projects/${id}`)).body.import_status;
    await until('the fork is there', async () => (await statusOf(fork.body.id)) === 'finished');
    const statuses = await Promise.all(projects.map(statusOf));
    expect(statuses.toSorted()).toEqual(['scheduled', 'started', 'started', 'started']);
    await until('all are let go', async () => {
      for (const response of waiting.splice(0)) response.writeHead(404).end();
      return (await Promise.all(projects.map(statusOf))).every((status) => status === 'failed');
    });
  });

  it('lists more and more refs is cut off', async () => {
    let stopped = false;
    const endless = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': ADVERTISEMENT });
      const lines = Buffer.from(packet(`${OID} refs/heads/${'x'.repeat(200)}\n`).repeat(500));
      const more = () => {
        while (!stopped && response.write(lines));
      };
      response.on('drain', more).on('close', () => {
        stopped = true;
      });
      more();
    });
    const user = await app().make.user();
    const project = await importFrom(user, `${endless}/x.git`);
    expect(project.import_error).toContain('too many branches and tags');
    await until('the server is let go', () => stopped);
  });

  it('stops sending is given up', async () => {
    const silent = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': ADVERTISEMENT }).write(packet('# service=git-upload-pack\n'));
    });
    const git = createGit({ root: join(folder(), 'silent'), log: createLogger('silent') });
    const { http } = app().hub.services;
    const open = (method: 'GET' | 'POST') => async () =>
      (
        await http.download({
          url: `${silent}/info/refs`,
          method,
          policy: { allowLocal: true, allowlist: [] },
          timeoutMs: 60_000,
          maxResponseBytes: 1_000,
        })
      ).stream;
    await expect(
      git.cloneRemote('a.git', { advertisement: open('GET'), request: open('POST') }, { idleTimeoutMs: 50 }),
    ).rejects.toThrow('The server stopped sending data');
    expect(await git.exists('a.git')).toBe(false);
    await git.close();
  });
});

const directoryOf = async (projectId: number): Promise<string> => {
  const { services } = app().hub;
  const row = await services.db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', projectId)
    .executeTakeFirstOrThrow();
  return join(services.config.dataDir, 'repositories', row.disk_path);
};
