import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient as createSseClient } from 'graphql-sse';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { removeEmbeddedPostgres } from '#platform/db/embedded.ts';
import { Client } from '../support/client.ts';
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';
import { type Process, startProcess, startWithNpm } from './process.ts';

// Runs the hub as in production: processes, signals, crashes and a database that goes away.

const TOKEN = 'token-of-root-for-the-processes';
const PASSWORD = 'password-of-root-for-the-processes';
const METRICS_TOKEN = 'token-of-who-reads-the-metrics';
const STOP_MS = 10_000;

// This code is loaded into a hub before it starts. A signal makes it throw errors that nothing can catch.
const FAULTS = `process.on('SIGUSR2', () => {
  setImmediate(() => { throw new Error('thrown by a timer'); });
  Promise.reject(new Error('rejected by nobody'));
});`;

const started: Process[] = [];
const start = (...options: Parameters<typeof startProcess>): Process => {
  const made = startProcess(...options);
  started.push(made);
  return made;
};
afterAll(() => {
  for (const { child } of started) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
});

const clientOf = (url: string, token: string | null = TOKEN) => new Client(url, () => Promise.resolve(token));

const folder = async (): Promise<string> => {
  const made = await mkdtemp(join(tmpdir(), 'millrace-process-'));
  // The embedded Postgres may run as another account.
  await chmod(made, 0o711);
  return made;
};

describe('the command line', () => {
  it('prints its help, and refuses bad settings without repeating secrets', async () => {
    const help = start({}, ['--help']);
    const wrong = start({ MILLRACE_PORT: '99999', MILLRACE_ADMIN_TOKEN: 'too-short', MILLRACE_ROLE: 'boss' });
    const unknown = start({}, ['--prot', '1']);
    expect(await help.ended).toBe(0);
    for (const word of ['MILLRACE_PORT', '--port', 'MILLRACE_ROLE', 'DATABASE_URL', 'MILLRACE_S3_BUCKET'])
      expect(help.out.join('\n')).toContain(word);
    expect(await wrong.ended).toBe(1);
    const said = wrong.log.join('\n');
    for (const word of ['MILLRACE_PORT (--port)', 'MILLRACE_ADMIN_TOKEN', 'MILLRACE_ROLE', 'one of all, web, worker'])
      expect(said).toContain(word);
    expect(said).not.toContain('too-short');
    expect(said).not.toMatch(/\bat \S+ \(/);
    expect(await unknown.ended).toBe(1);
    expect(unknown.log.join('\n')).toContain('--prot');
    for (const dataDir of [import.meta.filename, join(import.meta.filename, 'below')]) {
      const unusable = start({ MILLRACE_DATA_DIR: dataDir });
      expect(await unusable.ended).toBe(1);
      expect(unusable.log[0]).toContain('MILLRACE_DATA_DIR (--data-dir) cannot be used: E');
      expect(unusable.log[0]).toContain(dataDir);
    }
  });

  it('stops the hub when npm, which started it, is told to', async () => {
    const [database, dataDir] = await Promise.all([createTestDatabase(), folder()]);
    const npm = startWithNpm({ DATABASE_URL: database.url, MILLRACE_DATA_DIR: dataDir, MILLRACE_PORT: '0' });
    try {
      const url = await npm.url();
      expect((await fetch(`${url}/-/liveness`)).status).toBe(200);
      const exited = once(npm.child, 'exit');
      npm.child.kill('SIGTERM');
      await exited;
      await expect(fetch(`${url}/-/liveness`)).rejects.toThrow('fetch failed');
    } finally {
      // The whole group, with a hub that outlived npm.
      spawnSync('kill', ['-KILL', '--', `-${npm.child.pid}`]);
      await Promise.all([database.drop(), rm(dataDir, { recursive: true })]);
    }
  });

  it('says that it gets too few connections to the database', async () => {
    const [database, dataDir] = await Promise.all([createEmptyDatabase(), folder()]);
    const url = new URL(database.url);
    const name = url.pathname.slice(1);
    url.username = `few_${name}`;
    await query(database.url, `create role "${url.username}" login connection limit 4 password '${url.password}'`);
    await query(database.url, `alter database ${name} owner to "${url.username}"`);
    const hub = start({ DATABASE_URL: url.href, MILLRACE_DATA_DIR: dataDir, MILLRACE_PORT: '0' });
    expect(await hub.ended).toBe(1);
    expect(hub.log.at(-1)).toMatch(
      /^The database failed during the start: too many connections .* 40 connections to it\.$/,
    );
    await database.drop();
    await query(inject('testDatabase').adminUrl, `drop role "${url.username}"`);
    await rm(dataDir, { recursive: true });
  });

  it('says that git is missing', async () => {
    const programs = await folder();
    const hub = start({ PATH: programs, MILLRACE_DATA_DIR: join(programs, 'data') });
    expect(await hub.ended).toBe(1);
    expect(hub.log).toEqual(['There is no git on the PATH: install git 2.38 or later.']);
    await rm(programs, { recursive: true });
  });
});

describe('a hub with an old git, few files and faults, after a start whose port was taken', () => {
  let database: TestDatabase;
  let [dataDir, programs] = ['', ''];
  let taken: Process;
  let [port, token]: [number, string | undefined] = [0, undefined];
  let hub: Process;

  beforeAll(async () => {
    [database, dataDir, programs] = await Promise.all([createTestDatabase(), folder(), folder()]);
    await writeFile(join(programs, 'git'), '#!/bin/sh\necho git version 2.30.2\n', { mode: 0o755 });
    const env = { DATABASE_URL: database.url, MILLRACE_DATA_DIR: dataDir };
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    try {
      const address = other.address();
      port = typeof address === 'object' && address !== null ? address.port : 0;
      taken = start({ ...env, MILLRACE_PORT: String(port) });
      await taken.ended;
    } finally {
      other.close();
    }
    token = taken.out.map((line) => /root: (\S+) \(shown once\)$/.exec(line)?.[1]).find((each) => each);
    const odd = {
      PATH: `${programs}:${process.env.PATH}`,
      NODE_OPTIONS: `--import "data:text/javascript,${encodeURIComponent(FAULTS)}"`,
      MILLRACE_METRICS_TOKEN: METRICS_TOKEN,
    };
    hub = start({ ...env, ...odd, MILLRACE_PORT: '0' }, [], '-n 256');
    await hub.url();
  });
  afterAll(async () => {
    if (hub?.child.exitCode === null) hub.child.kill('SIGKILL');
    await hub?.ended;
    await database?.drop();
    for (const each of [dataDir, programs]) await rm(each, { recursive: true, force: true });
  });

  it('has reported that the port is taken, and shown the credentials of the first administrator', async () => {
    expect(await taken.ended).toBe(1);
    const said = taken.log.join('\n');
    for (const word of ['MILLRACE_PORT (--port)', `127.0.0.1:${port}`, 'in use']) expect(said).toContain(word);
    expect(said).not.toMatch(/\bat \S+ \(/);
    expect(token).toBeDefined();
  });

  it('reports that git is too old', async () => {
    await until('the report', () => hub.log.some((line) => line.includes('git 2.38 or later is needed')));
  });

  it('refuses connections before it runs out of files, and says what to do', async () => {
    const sockets: Socket[] = [];
    try {
      const { hostname, port } = new URL(await hub.url());
      expect(hub.log.join('\n')).toContain('raise its limit (ulimit -n)');
      const answers: string[] = [];
      for (let i = 0; i < 300; i++) {
        const socket = connect(Number(port), hostname).on('data', (data) => answers.push(data.toString()));
        socket.on('error', (error) => answers.push(error.message));
        sockets.push(socket);
      }
      await until('the refusals', () => answers.length === 300 - 128);
      expect(answers.filter((answer) => !/^HTTP\/1.1 503 .*\r\nRetry-After: \d/s.test(answer))).toEqual([]);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
  });

  it('logs and counts uncaught errors, and continues', async () => {
    const url = await hub.url();
    await until('the hub to accept connections again', async () => (await fetch(`${url}/-/liveness`)).status === 200);
    const before = hub.log.length;
    hub.child.kill('SIGUSR2');
    const fatal = () => hub.log.slice(before).filter((line) => line.includes('"level":60'));
    await until('both errors to be logged', () => fatal().length === 2);
    expect(fatal().join('\n')).toContain('thrown by a timer');
    expect(fatal().join('\n')).toContain('rejected by nobody');
    expect((await fetch(`${url}/-/readiness`)).status).toBe(200);
    const metrics = await fetch(`${url}/-/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
    const counts = (await metrics.text()).match(/^millrace_stray_errors_total\{.*/gm);
    expect(counts).toEqual([
      'millrace_stray_errors_total{origin="unhandledRejection"} 1',
      'millrace_stray_errors_total{origin="uncaughtException"} 1',
    ]);
  });

  it('accepts the credentials that the first start showed, does not show them again, and stops', async () => {
    expect((await clientOf(await hub.url(), token).get('/user')).body.username).toBe('root');
    expect(hub.out.join('\n')).not.toContain('shown once');
    hub.child.kill('SIGTERM');
    expect(await hub.ended).toBe(0);
  });
});

describe('a hub of several processes', () => {
  let database: TestDatabase;
  let dataDir = '';
  let web: Process;
  let worker: Process;
  let both: Process;
  let [webUrl, workerUrl, bothUrl] = ['', '', ''];

  beforeAll(async () => {
    [database, dataDir] = await Promise.all([createTestDatabase(), folder()]);
    const env = {
      DATABASE_URL: database.url,
      MILLRACE_DATA_DIR: dataDir,
      MILLRACE_PORT: '0',
      MILLRACE_ADMIN_TOKEN: TOKEN,
      MILLRACE_ADMIN_PASSWORD: PASSWORD,
      MILLRACE_METRICS_TOKEN: METRICS_TOKEN,
      MILLRACE_LOG_LEVEL: 'debug',
    };
    web = start({ ...env, MILLRACE_ROLE: 'web' });
    worker = start({ ...env, MILLRACE_ROLE: 'worker' });
    both = start(env, ['--role', 'all']);
    [webUrl, workerUrl, bothUrl] = await Promise.all([web.url(), worker.url(), both.url()]);
  });
  afterAll(async () => {
    for (const each of [web, worker, both]) if (each?.child.exitCode === null) each.child.kill('SIGKILL');
    await Promise.all([web?.ended, worker?.ended, both?.ended]);
    await database?.drop();
    await rm(dataDir, { recursive: true, force: true });
  });

  it('starts them together, each with one line of output, health checks and metrics', async () => {
    for (const [each, url] of [
      [web, webUrl],
      [worker, workerUrl],
      [both, bothUrl],
    ] as const) {
      expect(each.out).toEqual([`Millrace serves at ${url}`]);
      const client = clientOf(url, null);
      expect((await client.get('/-/liveness')).body).toEqual({ status: 'ok' });
      expect((await client.get('/-/readiness')).body).toMatchObject({
        status: 'ok',
        database: { status: 'ok' },
        storage: { status: 'ok' },
      });
      const metrics = await fetch(`${url}/-/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
      expect(metrics.headers.get('content-type')).toContain('text/plain');
      const figures = await metrics.text();
      expect(figures).toMatch(/^process_cpu_seconds_total /m);
      expect(figures).toMatch(/^millrace_http_request_duration_seconds_count\{.*route="\/-\/liveness".*\} 1$/m);
    }
    expect((await clientOf(workerUrl).get('/projects')).status).toBe(404);
  });

  it('shows a change in one process in the others within a second, and workers run the jobs of the web process', async () => {
    const [here, there] = [clientOf(webUrl), clientOf(bothUrl)];
    expect((await there.get('/application/settings')).body.max_import_size).toBe(0);
    expect((await here.put('/application/settings', { max_import_size: 77 })).status).toBe(200);
    await until(
      'the setting',
      async () => (await there.get('/application/settings')).body.max_import_size === 77,
      1_000,
    );

    const project = (await here.post('/projects', { name: 'p', initialize_with_readme: true })).body;
    expect((await there.get(`/projects/${project.id}/repository/branches/main`)).status).toBe(200);
    expect((await here.delete(`/projects/${project.id}`)).status).toBe(202);
    const forGood = new URLSearchParams({ permanently_remove: 'true', full_path: project.path_with_namespace });
    expect((await there.delete(`/projects/${project.id}?${forGood}`)).status).toBe(202);
    await until('the worker to remove it', async () => (await there.get(`/projects/${project.id}`)).status === 404);
    await until('the job', async () => (await jobsLeft()) === 0);
  });

  const jobsLeft = async (): Promise<number> => {
    const [row] = await query(
      database.url,
      'select count(*)::int as left from graphile_worker.jobs where run_at <= now()',
    );
    return Number(row?.left);
  };

  it('uses the request id of the caller, and logs neither tokens nor passwords', async () => {
    const client = clientOf(webUrl);
    const named = await client.get('/user', { 'x-request-id': 'my-request-1' });
    expect(named.headers.get('x-request-id')).toBe('my-request-1');
    expect((await client.get('/user')).headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    await until('the line of it', () => web.log.some((line) => line.includes('"request_id":"my-request-1"')));

    const made = (await client.post('/user/personal_access_tokens', { name: 'k', scopes: ['k8s_proxy'] })).body;
    const basic = Buffer.from(`root:${PASSWORD}`).toString('base64');
    const secrets = [TOKEN, PASSWORD, made.token, basic, 'query-token-query-token', new URL(database.url).password];
    await clientOf(webUrl, null).get('/user?private_token=query-token-query-token');
    await clientOf(webUrl, null).get(`/user?access_token=${TOKEN}`);
    await clientOf(webUrl, null).get('/projects', { authorization: `Bearer ${TOKEN}`, cookie: `s=${TOKEN}` });
    await fetch(`${webUrl}/root/x.git/info/refs?service=git-receive-pack`, {
      headers: { authorization: `Basic ${basic}` },
    });
    await client.post('/users', { username: 'u', name: 'u', email: 'u@example.com', password: PASSWORD });
    await client.graphql('query($t: String) { currentUser { username } projects(search: $t) { count } }', { t: TOKEN });
    await client.get('/user', { 'x-request-id': 'my-request-2' });
    await until('the last line', () => web.log.some((line) => line.includes('my-request-2')));
    const all = [web, worker, both].flatMap(({ log, out }) => [...log, ...out]);
    for (const secret of secrets.filter((each) => each !== '')) {
      expect(all.filter((line) => line.includes(secret))).toEqual([]);
    }
    for (const line of all.filter((each) => !each.startsWith('Millrace')))
      expect(JSON.parse(line)).toHaveProperty('level');
  });

  it('survives lost database connections: 503 meanwhile, back within 10 s, and streams miss nothing', async () => {
    const client = clientOf(bothUrl);
    const group = (await client.post('/groups', { name: 'g', path: 'g' })).body;
    const seen: unknown[] = [];
    const sse = createSseClient({
      url: `${bothUrl}/api/graphql`,
      retryAttempts: 0,
      headers: { 'private-token': TOKEN },
    });
    const unsubscribe = sse.subscribe(
      { query: 'subscription { events(kinds: ["label.created"]) { cursor subjectId } }' },
      {
        next: (result) => seen.push(result),
        error: (error) => seen.push(error),
        complete: () => seen.push('complete'),
      },
    );
    const label = (name: string) => client.post(`/groups/${group.id}/labels`, { name, color: '#ff0000' });
    let count = 0;
    await until('the subscription', async () => {
      await label(`probe ${++count}`);
      return seen.length > 0;
    });
    // The hub drops a stream if it loses the database while it delivers an event, so nothing may be under way.
    const before = await label('before');
    await until('what came before', () => JSON.stringify(seen).includes(`"subjectId":${before.body.id}`));

    const name = new URL(database.url).pathname.slice(1);
    const { adminUrl } = inject('testDatabase');
    await query(adminUrl, `alter database ${name} allow_connections false`);
    try {
      const cut = () =>
        query(adminUrl, `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
      await cut();
      const away = await client.get('/user');
      expect([away.status, away.body]).toEqual([503, { message: '503 Service Unavailable' }]);
      expect(away.headers.get('retry-after')).toMatch(/^\d+$/);
      const graphql = await client.post('/api/graphql', { query: '{ currentUser { username } }' });
      expect(graphql.status).toBe(503);
      const git = await fetch(`${bothUrl}/root/x.git/info/refs?service=git-upload-pack`, {
        headers: { authorization: `Basic ${Buffer.from(`oauth2:${TOKEN}`).toString('base64')}` },
      });
      expect(git.status).toBe(503);
      expect((await client.get('/-/readiness')).status).toBe(503);
      expect((await client.get('/-/liveness')).status).toBe(200);
      expect((await label('lost')).status).toBe(503);
    } finally {
      await query(adminUrl, `alter database ${name} allow_connections true`);
    }
    for (const url of [bothUrl, webUrl, workerUrl]) {
      await until('it to be ready', async () => (await clientOf(url).get('/-/readiness')).status === 200);
    }
    const after = await label('after');
    expect(after.status).toBe(201);
    await until('the event', () => JSON.stringify(seen).includes(`"subjectId":${after.body.id}`));
    expect(seen).not.toContain('complete');
    expect((await client.get(`/groups/${group.id}/labels?search=lost`)).body).toEqual([]);
    // Jobs recover too, since they have their own connection for notifications.
    const project = (await client.post('/projects', { name: 'q' })).body;
    expect((await client.delete(`/projects/${project.id}`)).status).toBe(202);
    await until('the job', async () => (await jobsLeft()) === 0);
    unsubscribe();
    sse.dispose();
  });

  it('stops a process within 10 s of SIGTERM despite open requests, while the others continue', async () => {
    const client = clientOf(webUrl);
    const project = (await client.post('/projects', { name: 'r', initialize_with_readme: true })).body;
    const controller = new AbortController();
    const stream = await fetch(`${webUrl}/api/graphql`, {
      method: 'POST',
      headers: { 'private-token': TOKEN, accept: 'text/event-stream', 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'subscription { events { cursor } }' }),
      signal: controller.signal,
    });
    expect(stream.headers.get('content-type')).toContain('text/event-stream');
    const { id } = (await client.get(`/projects/${project.id}/repository/branches/main`)).body.commit;
    // This push never ends.
    const push = request(`${webUrl}/${project.path_with_namespace}.git/git-receive-pack`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`oauth2:${TOKEN}`).toString('base64')}`,
        'content-type': 'application/x-git-receive-pack-request',
      },
    });
    push.on('error', () => {});
    const connected = new Promise((resolve) => push.once('socket', (socket) => socket.once('connect', resolve)));
    push.on('response', (response) => response.resume());
    const old = '0'.repeat(40);
    const command = `${old} ${id} refs/heads/half\0 report-status`;
    push.write(`${(command.length + 4).toString(16).padStart(4, '0')}${command}`);
    await connected;

    const begun = performance.now();
    web.child.kill('SIGTERM');
    expect(await web.ended).toBe(0);
    expect(performance.now() - begun).toBeLessThan(STOP_MS);
    controller.abort();
    push.destroy();
    await expect(fetch(`${webUrl}/-/liveness`)).rejects.toThrow();
    expect((await clientOf(bothUrl).get('/user')).status).toBe(200);
    const branches = (await clientOf(bothUrl).get(`/projects/${project.id}/repository/branches`)).body;
    expect(branches.map((branch: { name: string }) => branch.name)).toEqual(['main']);

    worker.child.kill('SIGTERM');
    both.child.kill('SIGINT');
    expect(await Promise.all([worker.ended, both.ended])).toEqual([0, 0]);
    expect(both.log.concat(worker.log, web.log).filter((line) => line.includes('did not close cleanly'))).toEqual([]);
  });
});

describe('with the embedded database', () => {
  it('says so if a disk fills up during the first start', async () => {
    const dataDir = await folder();
    // Only root may do this. The cluster fits, but not all migrations.
    const run = (command: string) => spawnSync('/bin/sh', ['-c', command, dataDir]).status;
    if (run('mount -t tmpfs -o size=45m,mode=711 none "$0"') !== 0) return;
    try {
      const hub = start({ MILLRACE_DATA_DIR: dataDir, MILLRACE_PORT: '0' });
      expect(await hub.ended).toBe(1);
      expect(hub.log.at(-1)).toMatch(/disk.* is full/);
      expect(hub.log.join('\n')).not.toMatch(/\bat \S+ \(/);
    } finally {
      await removeEmbeddedPostgres(dataDir);
      run('umount "$0"');
      await rm(dataDir, { recursive: true, force: true });
    }
  });

  it('restarts with its data after SIGKILL, and stops the database last after Ctrl-C', async () => {
    const dataDir = await folder();
    const env = { MILLRACE_DATA_DIR: dataDir, MILLRACE_PORT: '0' };
    try {
      const first = start(env);
      const url = await first.url();
      const [password = '', token = ''] = first.out
        .map((line) => /(?:password|root:) (\S+) \(shown once\)$/.exec(line)?.[1])
        .filter(Boolean);
      expect([password.length, token.length].every((length) => length >= 16)).toBe(true);
      expect(first.log.filter((line) => line.includes(token) || line.includes(password))).toEqual([]);
      const made = await clientOf(url, token).post('/projects', { name: 'kept', initialize_with_readme: true });
      expect(made.status).toBe(201);
      first.child.kill('SIGKILL');
      expect(await first.ended).toBe('SIGKILL');

      const again = start(env);
      const client = clientOf(await again.url(), token);
      expect(again.out).toHaveLength(1);
      expect((await client.get(`/projects/${made.body.id}`)).body).toMatchObject({ name: 'kept' });
      expect((await client.get(`/projects/${made.body.id}/repository/branches/main`)).status).toBe(200);
      process.kill(-(again.child.pid ?? 0), 'SIGINT');
      expect(await again.ended).toBe(0);
      expect(again.log.filter((line) => /"level":(?:50|60)/.test(line))).toEqual([]);
      expect(existsSync(join(dataDir, 'postgres', 'postmaster.pid'))).toBe(false);
    } finally {
      await removeEmbeddedPostgres(dataDir);
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});

const query = async (url: string, text: string): Promise<Record<string, unknown>[]> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
};
