import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, renameSync, statSync } from 'node:fs';
import { chown, lstat, mkdir, mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { replaceFile } from '../files/durable.ts';
import { codeOf } from '../files/error-code.ts';
import { shortTemporaryFolder } from '../files/temporary-folder.ts';
import { StartError } from '../process/start-error.ts';
import type { Account, Home } from './embedded-home.ts';
import { isAlive } from './embedded-lock.ts';

export const DATABASE = 'millrace';
export const SUPERUSER = 'millrace';
/** Crash recovery after a power cut may take minutes. If recovery fails, the server exits earlier. */
const START_TIMEOUT_MS = 300_000;
const ORPHANS_TIMEOUT_MS = 20_000;
const FAST_STOP_TIMEOUT_MS = 60_000;
const MAX_LOG_BYTES = 8 * 1024 * 1024;
/** `sun_path` holds 108 bytes including the closing NUL. The socket itself is called `.s.PGSQL.5432`. */
const MAX_SOCKET_DIR_LENGTH = 107 - '/.s.PGSQL.5432.lock'.length;

/** Returns a connection URL for the server's private socket. The host name only makes it a valid URL. */
export const connectionString = (socketDir: string, password: string, database: string) =>
  `postgresql://${SUPERUSER}:${password}@localhost/${database}?host=${encodeURIComponent(socketDir)}`;

const settings = (socketDir: string, durable: boolean): Record<string, string> => ({
  listen_addresses: '',
  unix_socket_directories: socketDir,
  unix_socket_permissions: '0700',
  max_connections: '200',
  shared_buffers: '128MB',
  max_wal_size: '2GB',
  random_page_cost: '1.1',
  work_mem: '8MB',
  // Requests are short and the CPUs are busy with other requests. It also saves the 64 MB of /dev/shm in containers.
  max_parallel_workers_per_gather: '0',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
  // The hub logs the errors that it receives. The server's log must not contain statements or rows, which may hold
  // secrets.
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

/**
 * Starts the server in its own session, so that Ctrl-C and signals to the hub's process group never reach it.
 *
 * @throws Error with the last lines of the server's log if it ends
 */
export const launch = async (home: Home, postgres: string, durable: boolean): Promise<void> => {
  await clearStalePid(home);
  const socketDir = await makeSocketDir(home);
  const values = Object.entries(settings(socketDir, durable)).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  if (existsSync(home.log) && statSync(home.log).size > MAX_LOG_BYTES) renameSync(home.log, `${home.log}.1`);
  const log = openSync(home.log, 'a', 0o600);
  try {
    const deadline = performance.now() + START_TIMEOUT_MS;
    const orphansDeadline = performance.now() + ORPHANS_TIMEOUT_MS;
    while (!(await startOnce(home, postgres, values, log, deadline))) {
      // A hub was killed right after it started the server, which only now has written its pid.
      if (await findServer(home)) return;
      const failure = await stoppedWhileStarting(home);
      // The backends of a killed server need a moment to notice and exit.
      const orphans = failure.message.includes('pre-existing shared memory block');
      if (!orphans || performance.now() > orphansDeadline) throw failure;
      await sleep(100);
    }
  } finally {
    closeSync(log);
  }
};

/** Returns true once the server is ready, and false if it exited. */
const startOnce = async (home: Home, postgres: string, values: string[], log: number, deadline: number) => {
  const child = spawn(postgres, ['-D', home.data, ...values], {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    env: environment,
    ...identity(home.account),
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (error) => reject(new StartError(`The embedded Postgres cannot be started: ${error.message}`)));
  });
  child.unref();
  let exited = false;
  child.once('exit', () => {
    exited = true;
  });
  while (!(await findServer(home))?.ready) {
    if (exited) return false;
    if (performance.now() > deadline) {
      throw new StartError(`The embedded Postgres is not ready after ${START_TIMEOUT_MS / 1000} s; see ${home.log}.`);
    }
    await sleep(10);
  }
  return true;
};

/**
 * Removes a postmaster.pid whose pid now belongs to another process. Postgres itself only removes files of dead pids.
 */
const clearStalePid = async (home: Home): Promise<void> => {
  const file = join(home.data, 'postmaster.pid');
  const text = await readFile(file, 'utf8').catch(() => null);
  if (text !== null && isAlive(Number(text.split('\n')[0]))) await rm(file, { force: true });
};

export const stoppedWhileStarting = async (home: Home): Promise<Error> => {
  const words = await lastWords(home);
  return new StartError(`The embedded Postgres stopped while starting:\n${words}${adviceOn(words)}`);
};

/** Returns an error with the last lines of the server's log, if they show a problem that operators can solve. */
export const solvableFailure = async (home: Home): Promise<Error | null> => {
  const words = await lastWords(home);
  const advice = adviceOn(words);
  return advice === '' ? null : new StartError(`The embedded Postgres failed:\n${words}${advice}`);
};

/** Returns what to do about a problem of Postgres that operators can solve, as a line of its own. */
export const adviceOn = (output: string): string => {
  if (/No space left on device|Disk quota exceeded|Check free disk space/.test(output)) {
    return '\nThe disk of the data directory is full. Free space, or choose another MILLRACE_DATA_DIR.';
  }
  if (output.includes('could not look up effective user ID')) {
    return '\nPostgres needs an account with a name: add the account to /etc/passwd, start the hub as another one, or set DATABASE_URL.';
  }
  return '';
};

/**
 * Waits until the server responds (an adopted server may still be recovering) and creates the database if it does not
 * exist. Returns the folder of the socket, or null if the server has ended: it may have been stopping for a hub that was
 * killed meanwhile.
 */
export const waitUntilReady = async (home: Home, password: string): Promise<string | null> => {
  const deadline = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    const server = await findServer(home);
    if (!server) return null;
    const client = new pg.Client({ connectionString: connectionString(server.socketDir, password, 'postgres') });
    client.on('error', () => {});
    try {
      await client.connect();
      const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [DATABASE]);
      if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
      return server.socketDir;
    } catch (error) {
      if (!isStarting(error) || performance.now() > deadline) throw error;
      // A ready server has its socket, unless somebody removed the file. Nothing can reach such a server.
      if (server.ready && codeOf(error) === 'ENOENT') await shutDown(home);
    } finally {
      await client.end().catch(() => {});
    }
    await sleep(20);
  }
};

/** True if the server is not listening yet, is starting up, or is shutting down. */
const isStarting = (error: unknown): boolean =>
  ['57P01', '57P03', 'ENOENT', 'ECONNREFUSED', 'ECONNRESET'].includes(String(codeOf(error))) ||
  (error instanceof Error && error.message.startsWith('Connection terminated'));

interface Server {
  readonly pid: number;
  readonly socketDir: string;
  readonly ready: boolean;
}

/**
 * Finds the running server of this cluster by its postmaster.pid. Returns null if the pid is dead or belongs to another
 * program.
 */
export const findServer = async (home: Home): Promise<Server | null> => {
  const text = await readFile(join(home.data, 'postmaster.pid'), 'utf8').catch(() => '');
  const [pidLine, , , , socketDir = '', , , status = ''] = text.split('\n');
  const pid = Number(pidLine);
  if (!Number.isInteger(pid) || pid <= 1) return null;
  const cwd = await realpath(`/proc/${pid}/cwd`).catch(() => null);
  if (cwd === null || cwd !== (await realpath(home.data))) return null;
  return { pid, socketDir: socketDir.trim(), ready: status.trim() === 'ready' };
};

export const shutDown = async (home: Home): Promise<void> => {
  const server = await findServer(home);
  if (!server) return;
  // SIGINT is a fast shutdown: it ends the sessions and writes everything. SIGQUIT only if that hangs; recovery
  // follows.
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

/**
 * Creates the socket folder, which only the server's account and root may enter. Uses a short temporary path if the
 * path of the data directory is too long for a socket. Each start uses the same path, because hubs that lost the server
 * know only that one.
 */
const makeSocketDir = async (home: Home): Promise<string> => {
  if (Buffer.byteLength(home.run) <= MAX_SOCKET_DIR_LENGTH) {
    // Emptied, because the lock file of a dead server may contain a pid that is in use again.
    await rm(home.run, { recursive: true, force: true });
    return makePrivate(home.run, home.account);
  }
  const recorded = (await readFile(home.socketDirFile, 'utf8').catch(() => '')).trim();
  if (recorded !== '' && (await isPrivate(recorded, home.account))) {
    await rm(recorded, { recursive: true, force: true });
    // Fails if another account takes the name at this moment.
    const again = await makePrivate(recorded, home.account).catch(() => null);
    if (again !== null) return again;
  }
  const directory = await shortTemporaryFolder('millrace-');
  await own(directory, home.account);
  await replaceFile(home.socketDirFile, `${directory}\n`);
  return directory;
};

const makePrivate = async (path: string, account: Account | null): Promise<string> => {
  await mkdir(path, { mode: 0o700 });
  await own(path, account);
  return path;
};

/** True if the folder is missing, or belongs to the server's account or this one. */
const isPrivate = async (path: string, account: Account | null): Promise<boolean> => {
  const status = await lstat(path).catch(() => null);
  return status === null || (status.isDirectory() && [account?.uid, process.getuid?.()].includes(status.uid));
};

export const privateDirectory = async (parent: string, prefix: string, account: Account | null): Promise<string> => {
  const directory = await mkdtemp(join(parent, prefix));
  await own(directory, account);
  return directory;
};

export const own = async (path: string, account: Account | null) => {
  if (account) await chown(path, account.uid, account.gid);
};

export const environment = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };

export const identity = (account: Account | null) => (account ? { uid: account.uid, gid: account.gid } : {});

const lastWords = async (home: Home): Promise<string> =>
  (await readFile(home.log, 'utf8').catch(() => '')).trimEnd().split('\n').slice(-8).join('\n');
