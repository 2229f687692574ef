import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncPath } from '../files/durable.ts';
import type { Logger } from '../log.ts';
import { StartError } from '../process/start-error.ts';
import { type Account, findBinaries, findHome, findPackage, type Home, SHARED_DIRECTORY } from './embedded-home.ts';
import { isAlive, processKey, withLock } from './embedded-lock.ts';
import {
  adviceOn,
  connectionString,
  DATABASE,
  environment,
  findServer,
  identity,
  launch,
  own,
  privateDirectory,
  SUPERUSER,
  shutDown,
  solvableFailure,
  stoppedWhileStarting,
  waitUntilReady,
} from './embedded-server.ts';

export interface EmbeddedPostgresOptions {
  readonly dataDir: string;
  readonly log: Logger;
  /** False trades durability for speed. For tests only. */
  readonly durable?: boolean;
  /** Root puts files here that the server's account must reach; /var/lib/millrace by default. */
  readonly sharedDirectory?: string;
  /** Starts the server again when it ends, for example because the disk was full. */
  readonly restart?: boolean;
}

const WATCH_MS = 2_000;

export interface EmbeddedPostgres {
  readonly connectionString: string;
  /** Returns an error that says what to do, if the log of the server shows why it failed, such as a full disk. */
  failure(): Promise<Error | null>;
  /** Stops the server unless another running hub uses it. Resolves when the server is gone. */
  stop(): Promise<void>;
  /**
   * Stops the server even if other hubs use it, and deletes the cluster. For temporary data directories (demo, tests).
   */
  destroy(): Promise<void>;
}

/**
 * Starts the Postgres of the npm package in `<dataDir>/postgres`, and creates the cluster on first use.
 * Adopts a server that a killed hub left running. Several hubs may share a data directory: each registers in `users/`,
 * and the last one to leave stops the server.
 *
 * @throws Error with the last lines of the server's log if it does not start
 */
export const startEmbeddedPostgres = async (options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> => {
  const packageRoot = findPackage();
  const sharedDirectory = options.sharedDirectory ?? SHARED_DIRECTORY;
  await mkdir(options.dataDir, { recursive: true });
  const dataDir = await realpath(options.dataDir);
  const durable = options.durable ?? true;
  const user = `${processKey()}-${randomBytes(4).toString('hex')}`;

  const { home, socketDir, revive, password } = await withLock(dataDir, async () => {
    const home = await findHome(dataDir, sharedDirectory);
    const binaries = await findBinaries(packageRoot, home.account, sharedDirectory);
    const password = await initialise(home, binaries.initdb, durable);
    const revive = () => ensureRunning({ home, postgres: binaries.postgres, password, durable, log: options.log });
    try {
      const socketDir = await revive();
      await writeFile(join(home.users, user), '', { mode: 0o600 });
      return { home, socketDir, revive, password };
    } catch (error) {
      if (!(await hasLivingUsers(home))) await shutDown(home);
      throw error;
    }
  });

  const stopWatching = options.restart ? watchServer(home, options.log, dataDir, revive) : () => {};
  let stopping: Promise<void> | null = null;
  const leave = async (force: boolean) => {
    stopWatching();
    await withLock(dataDir, async () => {
      await rm(join(home.users, user), { force: true });
      if (!force && (await hasLivingUsers(home))) {
        options.log.info('another hub on this data directory still uses the embedded Postgres');
        return;
      }
      await shutDown(home);
      if (force) await remove(home);
    });
  };
  return {
    connectionString: connectionString(socketDir, password, DATABASE),
    failure: () => solvableFailure(home),
    stop: () => (stopping ??= leave(false)),
    destroy: () => leave(true),
  };
};

interface Running {
  readonly home: Home;
  readonly postgres: string;
  readonly password: string;
  readonly durable: boolean;
  readonly log: Logger;
}

/**
 * Adopts the running server of the cluster, or starts one. Returns the folder of its socket. The caller must hold the
 * lock.
 */
const ensureRunning = async ({ home, postgres, password, durable, log }: Running): Promise<string> => {
  const running = await findServer(home);
  if (running) {
    log.info({ pid: running.pid }, 'adopting the embedded Postgres that is already running');
    const socketDir = await waitUntilReady(home, password);
    if (socketDir !== null) return socketDir;
  }
  await launch(home, postgres, durable);
  const socketDir = await waitUntilReady(home, password);
  if (socketDir === null) throw await stoppedWhileStarting(home);
  return socketDir;
};

/** Calls `revive` when the server has ended, and again until it succeeds. Returns a function that stops this. */
const watchServer = (home: Home, log: Logger, dataDir: string, revive: () => Promise<string>): (() => void) => {
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;
  const look = async () => {
    if (isOver || (await findServer(home))) return;
    log.error('the embedded Postgres has ended; starting it again');
    await withLock(dataDir, async () => {
      if (isOver) return;
      await revive();
      log.warn('the embedded Postgres runs again');
    });
  };
  const schedule = () => {
    if (isOver) return;
    timer = setTimeout(() => {
      look()
        .catch((error: unknown) => log.error({ err: error }, 'the embedded Postgres cannot be started; retrying'))
        .finally(schedule);
    }, WATCH_MS).unref();
  };
  schedule();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
};

/** Stops any server of this data directory and deletes its cluster. Does nothing if there is no cluster. */
export const removeEmbeddedPostgres = async (directory: string): Promise<void> => {
  if (!existsSync(join(directory, 'postgres'))) return;
  const dataDir = await realpath(directory);
  await withLock(dataDir, async () => {
    const home = await findHome(dataDir, SHARED_DIRECTORY);
    await shutDown(home);
    await remove(home);
  });
};

/** Creates the cluster if it does not exist, and removes incomplete ones of killed hubs. Returns the password. */
const initialise = async (home: Home, initdb: string, durable: boolean): Promise<string> => {
  await mkdir(home.users, { recursive: true, mode: 0o700 });
  const parent = dirname(home.data);
  for (const name of await readdir(parent)) {
    if (name.startsWith('init-')) await rm(join(parent, name), { recursive: true, force: true, maxRetries: 10 });
  }
  if (existsSync(join(home.data, 'PG_VERSION'))) {
    return (
      await readFile(home.passwordFile, 'utf8').catch((error: unknown) => {
        throw new StartError(
          `The embedded Postgres exists, but its password cannot be read from ${home.passwordFile}.`,
          {
            cause: error,
          },
        );
      })
    ).trim();
  }
  const password = randomBytes(24).toString('base64url');
  const unfinished = await privateDirectory(parent, 'init-', home.account);
  const passwordForInit = join(unfinished, 'password');
  await writeFile(passwordForInit, password, { mode: 0o600 });
  await own(passwordForInit, home.account);
  const cluster = join(unfinished, 'data');
  // Without these options the locale comes from the environment, and LANG=C would mean SQL_ASCII.
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
    // Tests open many connections, and deriving keys would cost more than the rest of a connection.
    ...(durable ? [] : ['--no-sync', '--no-data-checksums', '--set=scram_iterations=1']),
  ]);
  await writeFile(home.passwordFile, password, { mode: 0o600, flush: durable });
  // A cluster without its password would be lost.
  if (durable) await syncPath(home.root);
  await rename(cluster, home.data);
  if (durable) await syncPath(parent);
  await rm(unfinished, { recursive: true, force: true });
  return password;
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

/** Runs a program and waits for its end. @throws Error with the program's standard error if it fails */
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
      code === 0
        ? resolve()
        : reject(new StartError(`${program} failed (${code}):\n${output.trim()}${adviceOn(output)}`)),
    );
  });
