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

/** One Postgres for the run, with durable settings as the hub has them, and a temporary directory. */
export interface World {
  readonly directory: string;
  /** A migrated database of its own. */
  createDatabase(): Promise<Database>;
  close(): Promise<void>;
}

export interface Database {
  readonly url: string;
  readonly pool: pg.Pool;
  /** The server's processes: what their CPU time says is split by who asked only if the asking takes turns. */
  backends(): number[];
  /** CPU time of the whole server so far, also of backends that have ended. */
  cpuMs(): number;
  /** A hub on this database. It ends with the database. */
  startHub(options?: HubOptions): Promise<Server>;
  /** A server of baselines/, which gets the database by DATABASE_URL. It ends with the database. */
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
    close: async () => {
      for (const database of [...open]) await database.close();
      await server.destroy();
      await rm(directory, { recursive: true, force: true });
    },
  };
};

/** A database that is there already, and the directory of the hubs on it. `onClose` is called before they end. */
export const openDatabase = async (url: string, dataDir: string, onClose = () => {}): Promise<Database> => {
  const pool = createPool({ connectionString: url, max: 4, applicationName: 'millrace bench' });
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
  const postmaster = parentOf(rows[0]?.pid ?? 0);
  const servers: Server[] = [];
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
            MILLRACE_LOG_LEVEL: 'warn',
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
    close: async () => {
      onClose();
      await Promise.all(servers.map((server) => server.stop()));
      await pool.end();
    },
  };
};

const withDatabase = (connectionString: string, name: string): string => {
  const url = new URL(connectionString);
  url.pathname = `/${name}`;
  return url.href;
};
