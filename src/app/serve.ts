import { access, constants } from 'node:fs/promises';
import { flushCompileCache } from 'node:module';
import { delimiter, join } from 'node:path';
import { inspect } from 'node:util';
import type { SeededAdministrator } from '#domains/tokens/seed.ts';
import { ConfigError, helpText, readConfig, wantsHelp } from '#platform/config/config.ts';
import { isTransient } from '#platform/db/failures.ts';
import { isDiskFull } from '#platform/disk-full.ts';
import { codeOf } from '#platform/files/error-code.ts';
import { createLogger, type Logger } from '#platform/log.ts';
import { sourceStack } from '#platform/process/source-stack.ts';
import { StartError } from '#platform/process/start-error.ts';
import type { Hub } from './build.ts';
import { openDatabase } from './database.ts';
import { returnUnusedMemory } from './memory.ts';
import { surviveStrayErrors } from './stray-errors.ts';

const MAX_STOP_MS = 9_500;
const COLLECT_AFTER_MS = 1_500;

/**
 * Starts the hub, prints its URL on standard output, and stops it cleanly on SIGTERM or SIGINT. If it cannot start, it
 * prints why and exits with 1.
 */
export const serve = async (): Promise<void> => {
  try {
    await start();
  } catch (error) {
    console.error(reasonOf(error));
    process.exit(1);
  }
};

const TOO_MANY_CONNECTIONS = '53300';

/** Returns why the hub cannot start. Only unexpected errors have a stack. */
const reasonOf = (error: unknown): string => {
  if (error instanceof ConfigError) return `${error.message}\nSee npm start -- --help.`;
  if (error instanceof StartError) return error.message;
  if (error instanceof Error && (isDiskFull(error) || isDiskFull(error.cause)))
    return `A disk is full: ${error.message}. Free space on the disks of the data directory and of the database, and start again.`;
  if (error instanceof Error && isTransient(error)) {
    const advice =
      codeOf(error) === TOO_MANY_CONNECTIONS ? 'A process needs up to 40 connections to it' : 'Start again';
    return `The database failed during the start: ${error.message}. ${advice}.`;
  }
  return sourceStack(inspect(error));
};

const start = async (): Promise<void> => {
  const argv = process.argv.slice(2);
  if (wantsHelp(argv)) {
    console.log(helpText());
    return;
  }
  const config = readConfig(argv, process.env);
  const log = createLogger(config.logLevel);
  await requireGit();
  // Starts Postgres while the rest of the hub is loaded, which takes about as long. `startHub` reports its failure.
  const database = openDatabase(config, log);
  database.catch(() => undefined);
  const starting = import('./build.ts').then(({ startHub }) =>
    startHub({ config, log, database, onAdministrator: showOnce }),
  );
  stopOnSignal(starting, log);
  const hub = await starting;
  surviveStrayErrors(log);
  console.log(`Millrace serves at ${hub.url}`);
  // Loading the hub leaves garbage. Its collection must not delay the first requests.
  setTimeout(() => {
    // Writes what this start compiled now: a killed process would write nothing, and one that stops would add the code
    // of all its requests.
    flushCompileCache();
    returnUnusedMemory(log);
    // An old git fails at some calls only, such as merges. The start does not wait for this.
    hub.services.git.requireVersion().catch((error: unknown) => log.error({ err: error }, 'git cannot be used'));
  }, COLLECT_AFTER_MS).unref();
};

/** Only looks for the program: running it would take as long as the rest of these steps. */
const requireGit = async (): Promise<void> => {
  const folders = (process.env.PATH ?? '/usr/local/bin:/bin:/usr/bin').split(delimiter);
  const found = folders.map((folder) => access(join(folder, 'git'), constants.X_OK));
  await Promise.any(found).catch(() => {
    throw new StartError('There is no git on the PATH: install git 2.38 or later.');
  });
};

const showOnce = ({ password, token }: SeededAdministrator): void => {
  if (password !== null) console.log(`First administrator: root, password ${password} (shown once)`);
  if (token !== null) console.log(`Access token of root: ${token} (shown once)`);
};

/** Handles signals from the very start, so that stopping a hub while it starts leaves no database running. */
const stopOnSignal = (starting: Promise<Hub>, log: Logger): void => {
  let stopping = false;
  const stop = (signal: NodeJS.Signals) => {
    if (stopping) return;
    stopping = true;
    log.info({ signal }, 'stopping');
    // Abandons work that hangs. All state is in the database, and unfinished work is resumed.
    setTimeout(() => process.exit(1), MAX_STOP_MS).unref();
    starting
      .then((hub) => hub.close())
      .then(
        () => process.exit(0),
        (error: unknown) => {
          log.fatal({ err: error }, 'could not stop cleanly');
          process.exit(1);
        },
      );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
};
