import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, openSync, renameSync, statSync } from 'node:fs';
import { chown, mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from '../log.ts';
import { type Account, findBinaries, findHome, type Home } from './embedded-home.ts';
import { isAlive, processKey, withLock } from './embedded-lock.ts';

const DATABASE = 'millrace';
const SUPERUSER = 'millrace';
/** Crash recovery after a power cut may take minutes; the server tells by exiting when there is no hope. */
const START_TIMEOUT_MS = 300_000;
const FAST_STOP_TIMEOUT_MS = 60_000;
const MAX_LOG_BYTES = 8 * 1024 * 1024;
/** `sun_path` holds 108 bytes with the closing NUL; the socket itself is called `.s.PGSQL.5432`. */
const MAX_SOCKET_DIR_LENGTH = 107 - '/.s.PGSQL.5432.lock'.length;

export interface EmbeddedPostgresOptions {
  readonly dataDir: string;
  readonly log: Logger;
  /** False gives up durability for speed: for tests only. */
  readonly durable?: boolean;
}

export interface EmbeddedPostgres {
  readonly connectionString: string;
  /** Stops the server, unless another living hub uses it; resolves once it is gone. */
  stop(): Promise<void>;
  /** Stops the server whoever uses it and deletes the cluster. For throw-away data directories (demo, tests). */
  destroy(): Promise<void>;
}

/**
 * Starts the Postgres that comes with the npm package, in `<dataDir>/postgres`, making the cluster on first use
 * (issue 2 §2). A server left by a killed hub is adopted. Several hubs may share a data directory: each is noted in
 * `users/`, and the last to leave stops the server. Throws with the server's own words when it does not start.
 */
export const startEmbeddedPostgres = async (options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> => {
  await mkdir(options.dataDir, { recursive: true });
  const dataDir = await realpath(options.dataDir);
  const durable = options.durable ?? true;
  const user = `${processKey()}-${randomBytes(4).toString('hex')}`;

  const { home, socketDir, password } = await withLock(dataDir, async () => {
    const home = await findHome(dataDir);
    const binaries = await findBinaries(home.account);
    const password = await initialise(home, binaries.initdb, durable);
    const running = await findServer(home);
    if (running) options.log.info({ pid: running.pid }, 'adopting the embedded Postgres that already runs');
    else await launch(home, binaries.postgres, durable);
    const socketDir = await waitUntilReady(home, password);
    await writeFile(join(home.users, user), '', { mode: 0o600 });
    return { home, socketDir, password };
  });

  let stopping: Promise<void> | null = null;
  const leave = async (force: boolean) => {
    await withLock(dataDir, async () => {
      await rm(join(home.users, user), { force: true });
      if (!force && (await hasLivingUsers(home))) {
        options.log.info('leaving the embedded Postgres to the other hub on this data directory');
        return;
      }
      await shutDown(home);
      if (force) await remove(home);
    });
  };
  return {
    connectionString: connectionString(socketDir, password, DATABASE),
    stop: () => (stopping ??= leave(false)),
    destroy: () => leave(true),
  };
};

/** Stops whatever server runs on this data directory and deletes its cluster; nothing happens where there is none. */
export const removeEmbeddedPostgres = async (directory: string): Promise<void> => {
  if (!existsSync(join(directory, 'postgres'))) return;
  const dataDir = await realpath(directory);
  await withLock(dataDir, async () => {
    const home = await findHome(dataDir);
    await shutDown(home);
    await remove(home);
  });
};

const connectionString = (socketDir: string, password: string, database: string) =>
  `postgresql://${SUPERUSER}:${password}@localhost/${database}?host=${encodeURIComponent(socketDir)}`;

/** Makes the cluster unless it is there; the half-made one of a killed hub is cleared away. Returns the password. */
const initialise = async (home: Home, initdb: string, durable: boolean): Promise<string> => {
  await mkdir(home.users, { recursive: true, mode: 0o700 });
  if (existsSync(join(home.data, 'PG_VERSION'))) {
    return (
      await readFile(home.passwordFile, 'utf8').catch((error: unknown) => {
        throw new Error(`The embedded Postgres exists, but its password cannot be read from ${home.passwordFile}.`, {
          cause: error,
        });
      })
    ).trim();
  }
  const parent = dirname(home.data);
  for (const name of await readdir(parent)) {
    if (name.startsWith('init-')) await rm(join(parent, name), { recursive: true, force: true });
  }
  const password = randomBytes(24).toString('base64url');
  const unfinished = await privateDirectory(parent, 'init-', home.account);
  const passwordForInit = join(unfinished, 'password');
  await writeFile(passwordForInit, password, { mode: 0o600 });
  await own(passwordForInit, home.account);
  const cluster = join(unfinished, 'data');
  // Without these locale options the environment would decide, and LANG=C means SQL_ASCII.
  await run(home.account, initdb, [
    `--pgdata=${cluster}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordForInit}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--locale=C',
    '--no-instructions',
    ...(durable ? [] : ['--no-sync']),
  ]);
  await writeFile(home.passwordFile, password, { mode: 0o600 });
  await rename(cluster, home.data);
  await rm(unfinished, { recursive: true, force: true });
  return password;
};

const settings = (socketDir: string, durable: boolean): Record<string, string> => ({
  listen_addresses: '',
  unix_socket_directories: socketDir,
  unix_socket_permissions: '0700',
  max_connections: '200',
  shared_buffers: '128MB',
  max_wal_size: '2GB',
  random_page_cost: '1.1',
  work_mem: '8MB',
  // Requests are short and the CPUs are busy with others; it also spares the 64 MB of /dev/shm in containers.
  max_parallel_workers_per_gather: '0',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
  // The hub logs the errors it gets; the server's log must never hold a statement or a row, as these may carry secrets.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
  ...(durable
    ? { synchronous_commit: 'on' }
    : {
        fsync: 'off',
        synchronous_commit: 'off',
        full_page_writes: 'off',
        autovacuum: 'off',
        wal_level: 'minimal',
        max_wal_senders: '0',
      }),
});

/** Starts the server in a process session of its own, so that Ctrl-C and signals to the hub's group never reach it. */
const launch = async (home: Home, postgres: string, durable: boolean): Promise<void> => {
  const socketDir = await makeSocketDir(home);
  const values = Object.entries(settings(socketDir, durable)).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  if (existsSync(home.log) && statSync(home.log).size > MAX_LOG_BYTES) renameSync(home.log, `${home.log}.1`);
  const log = openSync(home.log, 'a', 0o600);
  try {
    const child = spawn(postgres, ['-D', home.data, ...values], {
      detached: true,
      stdio: ['ignore', log, log],
      cwd: '/',
      env: environment,
      ...identity(home.account),
    });
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(new Error(`The embedded Postgres cannot be started: ${error.message}`)));
    });
    child.unref();
    let exited = false;
    child.once('exit', () => {
      exited = true;
    });
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (!(await findServer(home))?.ready) {
      if (exited) throw new Error(`The embedded Postgres stopped while starting:\n${await lastWords(home)}`);
      if (performance.now() > deadline)
        throw new Error(`The embedded Postgres is not ready after ${START_TIMEOUT_MS / 1000} s; see ${home.log}.`);
      await sleep(10);
    }
  } finally {
    closeSync(log);
  }
};

/** Waits for an answer (an adopted server may still be recovering) and makes the database; returns the socket's folder. */
const waitUntilReady = async (home: Home, password: string): Promise<string> => {
  const deadline = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    const server = await findServer(home);
    if (!server) throw new Error(`The embedded Postgres stopped while starting:\n${await lastWords(home)}`);
    const client = new pg.Client({ connectionString: connectionString(server.socketDir, password, 'postgres') });
    client.on('error', () => {});
    try {
      await client.connect();
      const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [DATABASE]);
      if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
      return server.socketDir;
    } catch (error) {
      if (!isStarting(error) || performance.now() > deadline) throw error;
    } finally {
      await client.end().catch(() => {});
    }
    await sleep(20);
  }
};

/** Not listening yet, starting up, or shutting down on the wish of a hub that was killed while it waited. */
const isStarting = (error: unknown): boolean =>
  error instanceof Error &&
  'code' in error &&
  ['57P03', 'ENOENT', 'ECONNREFUSED', 'ECONNRESET'].includes(String(error.code));

interface Server {
  readonly pid: number;
  readonly socketDir: string;
  readonly ready: boolean;
}

/** The living server of this cluster by its postmaster.pid; a stale file (dead pid, or a pid that is something else now) counts as none. */
const findServer = async (home: Home): Promise<Server | null> => {
  const text = await readFile(join(home.data, 'postmaster.pid'), 'utf8').catch(() => '');
  const [pidLine, , , , socketDir = '', , , status = ''] = text.split('\n');
  const pid = Number(pidLine);
  if (!Number.isInteger(pid) || pid <= 1) return null;
  const cwd = await realpath(`/proc/${pid}/cwd`).catch(() => null);
  if (cwd === null || cwd !== (await realpath(home.data))) return null;
  return { pid, socketDir: socketDir.trim(), ready: status.trim() === 'ready' };
};

const shutDown = async (home: Home): Promise<void> => {
  const server = await findServer(home);
  if (!server) return;
  // SIGINT: a fast shutdown, sessions ended and everything written; SIGQUIT only if that hangs (recovery mends it).
  process.kill(server.pid, 'SIGINT');
  const deadline = performance.now() + FAST_STOP_TIMEOUT_MS;
  let pressed = false;
  while ((await findServer(home)) || isAlive(server.pid)) {
    if (!pressed && performance.now() > deadline) {
      pressed = true;
      process.kill(server.pid, 'SIGQUIT');
    }
    await sleep(10);
  }
  if (server.socketDir !== home.run) await rm(server.socketDir, { recursive: true, force: true });
};

const hasLivingUsers = async (home: Home): Promise<boolean> => {
  let living = false;
  for (const name of await readdir(home.users)) {
    const [pid, startedAt] = name.split('-');
    if (isAlive(Number(pid), startedAt)) living = true;
    else await rm(join(home.users, name), { force: true });
  }
  return living;
};

const remove = async (home: Home): Promise<void> => {
  if (home.elsewhere) await rm(home.elsewhere, { recursive: true, force: true });
  await rm(home.root, { recursive: true, force: true });
};

/** A folder only the server's user (and root) may enter; a short one when the data directory's path is too long for a socket. */
const makeSocketDir = async (home: Home): Promise<string> => {
  if (Buffer.byteLength(home.run) > MAX_SOCKET_DIR_LENGTH) return privateDirectory(tmpdir(), 'millrace-', home.account);
  await mkdir(home.run, { recursive: true, mode: 0o700 });
  await own(home.run, home.account);
  return home.run;
};

const privateDirectory = async (parent: string, prefix: string, account: Account | null): Promise<string> => {
  const directory = await mkdtemp(join(parent, prefix));
  await own(directory, account);
  return directory;
};

const own = async (path: string, account: Account | null) => {
  if (account) await chown(path, account.uid, account.gid);
};

const environment = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };

const identity = (account: Account | null) => (account ? { uid: account.uid, gid: account.gid } : {});

const lastWords = async (home: Home): Promise<string> =>
  (await readFile(home.log, 'utf8').catch(() => '')).trimEnd().split('\n').slice(-8).join('\n');

/** Runs a program to its end; throws with what it wrote to standard error. */
const run = (account: Account | null, program: string, args: readonly string[]): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      cwd: '/',
      env: environment,
      ...identity(account),
    });
    let output = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-4_000);
    });
    child.once('error', reject);
    child.once('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} failed (${code}):\n${output.trim()}`)),
    );
  });
