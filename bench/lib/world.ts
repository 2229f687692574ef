import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbeddedPostgres } from '../../src/platform/db/embedded.ts';
import { migrate } from '../../src/platform/db/migrate.ts';
import { createPool } from '../../src/platform/db/pool.ts';
import { createLogger } from '../../src/platform/log.ts';
import { childrenOf, parentOf, type Server, startServer, treeCpuMs } from './processes.ts';

export const ADMIN_TOKEN = 'administrator-token-of-the-bench';

/** A Postgres server for the run, as durable as the hub's, and a temporary directory. */
export interface World {
  readonly directory: string;
  /** Creates a new migrated database. */
  createDatabase(): Promise<Database>;
  close(): Promise<void>;
}

export interface Database {
  readonly url: string;
  readonly pool: pg.Pool;
  /**
   * Returns the process ids of the Postgres server. Their CPU time can be attributed to one side only while the other
   * is idle.
   */
  backends(): number[];
  /** Returns the CPU time of the whole server so far, including backends that have ended. */
  cpuMs(): number;
  /** Starts a hub on this database. It stops when the database is closed. */
  startHub(options?: HubOptions): Promise<Server>;
  /** Starts a server from baselines/ with the database in DATABASE_URL. It stops when the database is closed. */
  startBaseline(name: string, env?: Readonly<Record<string, string>>): Promise<Server>;
  close(): Promise<void>;
}

export interface HubOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly dataDir?: string;
}

export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
export const HUB_READY = /^Millrace serves at /;

export const openWorld = async (): Promise<World> => {
  const directory = await mkdtemp(join(tmpdir(), 'millrace-bench-'));
  const server = await startEmbeddedPostgres({ dataDir: join(directory, 'database'), log: createLogger('warn') });
  const open = new Set<Database>();
  let made = 0;
  let closing: Promise<void> | undefined;
  const closeAll = async () => {
    for (const database of [...open]) await database.close();
    await server.destroy();
    await rm(directory, { recursive: true, force: true });
  };
  return {
    directory,
    createDatabase: async () => {
      const name = `bench_${++made}`;
      const admin = new pg.Client({ connectionString: server.connectionString });
      await admin.connect();
      await admin.query(`create database ${name}`);
      await admin.end();
      const url = withDatabase(server.connectionString, name);
      await migrate(url);
      const database = await openDatabase(url, join(directory, name), () => open.delete(database));
      open.add(database);
      return database;
    },
    // After a signal, the bench that it interrupted closes too.
    close: () => {
      closing ??= closeAll();
      return closing;
    },
  };
};

/** Opens an existing database. `dataDir` is the data directory of its hubs. `onClose` is called before they stop. */
export const openDatabase = async (url: string, dataDir: string, onClose = () => {}): Promise<Database> => {
  const pool = createPool({ connectionString: url, max: 4, applicationName: 'millrace bench' });
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
  const postmaster = parentOf(rows[0]?.pid ?? 0);
  const servers: Server[] = [];
  let closing: Promise<void> | undefined;
  const closeAll = async () => {
    onClose();
    await Promise.all(servers.map((server) => server.stop()));
    await pool.end();
  };
  const started = async (starting: Promise<Server>): Promise<Server> => {
    const server = await starting;
    servers.push(server);
    return server;
  };
  return {
    url,
    pool,
    backends: () => childrenOf(postmaster),
    cpuMs: () => treeCpuMs(postmaster),
    startHub: ({ env = {}, dataDir: own = dataDir } = {}) =>
      started(
        startServer(MAIN, {
          ready: HUB_READY,
          env: {
            DATABASE_URL: url,
            MILLRACE_DATA_DIR: own,
            MILLRACE_PORT: '0',
            MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
            MILLRACE_LOG_LEVEL: 'error',
            ...env,
          },
          nodeArgs: (process.env.BENCH_HUB_NODE_ARGS ?? '').split(' ').filter((arg) => arg !== ''),
        }),
      ),
    startBaseline: (name, env = {}) =>
      started(
        startServer(fileURLToPath(new URL(`../baselines/${name}`, import.meta.url)), {
          ready: /^ready /,
          env: { DATABASE_URL: url, ...env },
        }),
      ),
    close: () => {
      closing ??= closeAll();
      return closing;
    },
  };
};

const withDatabase = (connectionString: string, name: string): string => {
  const url = new URL(connectionString);
  url.pathname = `/${name}`;
  return url.href;
};
