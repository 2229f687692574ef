import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { forgetRestrictions, RESTRICTIONS_CHANNEL } from '#domains/access/restrictions.ts';
import { flushUses } from '#domains/deprecations/counting.ts';
import { followKeys } from '#domains/error-ingest/keys.ts';
import { startWaitingRunners } from '#domains/runner-protocol/waiting.ts';
import { SETTINGS_CHANNEL } from '#domains/settings/commands.ts';
import { forgetSettings } from '#domains/settings/queries.ts';
import { requireSecretKey } from '#domains/settings/secret-key.ts';
import { type SeededAdministrator, seedAdministrator } from '#domains/tokens/seed.ts';
import { Caches } from '#platform/cache.ts';
import { Answers } from '#platform/caller/answers.ts';
import { type Clock, systemClock } from '#platform/clock.ts';
import { type Config, ConfigError } from '#platform/config/config.ts';
import { type Services, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { Listener } from '#platform/db/listener.ts';
import { migrate } from '#platform/db/migrate.ts';
import { createDatabase, createPool } from '#platform/db/pool.ts';
import { startEventLog } from '#platform/event-log/event-log.ts';
import { createGit } from '#platform/git/git.ts';
import { createHttpClient } from '#platform/http-client/http-client.ts';
import type { Logger } from '#platform/log.ts';
import { loadInstanceKey } from '#platform/process/instance-key.ts';
import { startProcesses } from '#platform/process/processes.ts';
import { createStorage } from '#platform/storage/create-storage.ts';
import { type OpenDatabase, openDatabase } from './database.ts';
import { closeHttp } from './http.ts';
import { createMetricsServer, metricsOfProcess } from './metrics.ts';
import { connectPorts } from './ports.ts';
import { serveWeb } from './web.ts';
import { startWorker, type Worker } from './worker.ts';

export interface Hub {
  /** The URL that this process serves, without a trailing slash. */
  readonly url: string;
  /** The URL of the metrics, or null if this process serves none. */
  readonly metricsUrl: string | null;
  readonly services: Services;
  /**
   * For tests: waits until all events are followed and all due jobs have run. Fails if this process has the role web.
   */
  settle(): Promise<void>;
  /** Stops accepting, finishes or releases work, and stops the embedded database last. */
  close(): Promise<void>;
}

export interface HubOptions {
  readonly config: Config;
  readonly log: Logger;
  /** The database, if the caller has opened it. The hub stops it when it is closed. */
  readonly database?: Promise<OpenDatabase>;
  readonly clock?: Clock;
  /** Checks every REST response against its record. For tests. */
  readonly checkResponses?: boolean;
  /** False disables cron schedules; jobs that are added explicitly still run. For tests, which start at any minute. */
  readonly crons?: boolean;
  /** False does not wait until repositories and files are on disk. For tests. */
  readonly durable?: boolean;
  /**
   * The most connections of each pool, at least two. Tests need few: opening one is expensive, and each plans its
   * statements anew.
   */
  readonly connections?: number;
  /** Called right before the first administrator is committed, with generated values that are shown only now. */
  readonly onAdministrator?: (administrator: SeededAdministrator) => void;
}

/**
 * Six transactions may hold a connection while they wait for a second one: the dispatch of hooks (one), digests of error
 * events when they need a new partition (two), and exports that store their progress (three). If all transactions did so,
 * they could hold the whole pool and wait for each other. All others use their own connection only.
 */
const POOL_SIZE = 20;
const HTTP_CLOSE_TIMEOUT_MS = 4_000;

/** Starts a hub: database, storage and git, and the workers, the web server or both, depending on its role. */
export const startHub = async ({
  config,
  log,
  database,
  clock = systemClock,
  checkResponses = false,
  crons = true,
  durable = true,
  connections = POOL_SIZE,
  onAdministrator,
}: HubOptions): Promise<Hub> => {
  // Called in reverse order, both when the start fails half-way and when the hub is closed.
  const closers: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (let closer = closers.pop(); closer; closer = closers.pop()) {
      await closer().catch((error: unknown) => log.error({ err: error }, 'a part of the hub did not close cleanly'));
    }
  };
  try {
    const {
      connectionString,
      failure: databaseFailure,
      stop: stopDatabase,
    } = await (database ?? openDatabase(config, log));
    closers.push(stopDatabase);
    const repositories = await ownFolder(config.dataDir, 'repositories');
    const caches = new Caches();
    const pool = createPool({
      connectionString,
      max: connections,
      applicationName: `millrace ${config.role}`,
      // If Postgres crashed, it may have lost commits that did not wait for the disk, and uses their numbers again.
      onLoss: () => caches.clear(),
    });
    closers.push(() => pool.end());
    await migrate(pool).catch(async (error: unknown) => {
      throw (await databaseFailure()) ?? error;
    });

    const urls = { base: config.externalUrl ?? '' };
    const http = createHttpClient();
    closers.push(() => http.close());
    const processId = randomUUID();
    const services: Services = {
      config,
      pool,
      http,
      answers: new Answers(),
      clock,
      log,
      urls,
      db: createDatabase(pool),
      caches,
      storage: createStorage(
        config.storage === 's3' && config.s3Bucket !== null
          ? { kind: 's3', bucket: config.s3Bucket }
          : { kind: 'local', directory: await ownFolder(config.dataDir, 'storage'), writer: processId, durable },
      ),
      git: createGit({
        root: repositories,
        log,
        caches,
        memoryMiB: config.gitMemory,
        processes: config.gitProcesses,
        durable,
      }),
      secretKey: await loadInstanceKey(config.dataDir, config.secretKey),
      processId,
    };
    connectPorts(services);
    closers.push(() => services.storage.close());
    closers.push(() => services.git.close());
    await requireSecretKey(services);
    const createContext = createContextFactory(services);
    await seedAdministrator(
      createContext({ actor: systemActor }),
      { password: config.adminPassword, token: config.adminToken },
      onAdministrator,
    );

    const listener = new Listener(connectionString, log);
    listener.on(SETTINGS_CHANNEL, () => forgetSettings(services));
    listener.on(RESTRICTIONS_CHANNEL, () => forgetRestrictions(services));
    await listener.start();
    closers.push(() => listener.close());
    const eventLog = await startEventLog(services, listener);
    closers.push(() => eventLog.stop());
    if (config.role !== 'worker') followKeys(services, eventLog.feed);
    const processes = await startProcesses({ services });
    processes.onProcessDead((id) => services.storage.removeDraftsOf(id));
    closers.push(() => processes.stop());

    closers.push(() => flushUses(services));
    // The server listens first, because everything that starts later writes its URL into bodies and records.
    const metrics = metricsOfProcess(services);
    const faces = config.role !== 'worker';
    const web = await serveWeb({ services, createContext, eventLog, checkResponses, metrics, faces });
    closers.push(() => closeHttp(web, HTTP_CLOSE_TIMEOUT_MS));
    // Ends the waits of runners before the server waits for its requests.
    if (faces) closers.push(startWaitingRunners(services, eventLog.feed, listener));
    await listen(web, config, 'MILLRACE_HOST (--host), MILLRACE_PORT (--port)');
    const url = urlOf(web, config.host);
    urls.base ||= url;
    let metricsUrl = config.metricsToken === null ? null : `${url}/-/metrics`;
    if (config.metricsAddress !== null) {
      const server = createMetricsServer({ metrics, token: config.metricsToken });
      closers.push(() => server.close());
      await listen(server, config.metricsAddress, 'MILLRACE_METRICS_ADDRESS (--metrics-address)');
      metricsUrl = `${urlOf(server, config.metricsAddress.host)}/-/metrics`;
      log.info({ url: metricsUrl }, 'metrics are served');
    }

    let worker: Worker | null = null;
    if (config.role !== 'web') {
      worker = await startWorker({ services, createContext, eventLog, listener, processes, crons, connections });
      closers.push(worker.stop);
    }
    const settle = async (): Promise<void> => {
      if (!worker) throw new Error('this process runs no jobs: its role is web');
      await worker.settle();
    };
    return { url, metricsUrl, services, settle, close };
  } catch (error) {
    await close();
    throw error;
  }
};

/** Creates a folder that only this account can read: it holds repositories and archives of private projects. */
const ownFolder = async (dataDir: string, name: string): Promise<string> => {
  const folder = join(dataDir, name);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return folder;
};

/** @throws ConfigError naming the `settings` that hold the address, if the server cannot listen there */
const listen = async (
  server: FastifyInstance,
  { host, port }: { readonly host: string; readonly port: number },
  settings: string,
): Promise<void> => {
  try {
    await server.listen({ host, port });
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw new ConfigError(`${settings}: ${error.message}`, { cause: error });
  }
};

const urlOf = (web: FastifyInstance, host: string): string => {
  const address: AddressInfo | string | null = web.server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no address');
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return `http://${shown}:${address.port}`;
};
