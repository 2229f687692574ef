import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { createLogger } from '#platform/log.ts';
import { randomToken } from '#platform/secrets.ts';
import { startOwnPostgres } from '../support/own-postgres.ts';
import { until } from '../support/until.ts';
import { type Process, startProcess } from '../system/process.ts';

const HUBS = 2;
const ADMIN_TOKEN = 'administrator-token-of-the-torture';
const STATEMENT_MS = 30_000;

export interface Breakage {
  readonly killed: number;
  readonly restarts: number;
  /** The number of restarts after SIGKILL to all processes of Postgres at once. */
  readonly crashes: number;
}

/** Two hubs and their Postgres, which break and start again. */
export class Cluster {
  readonly #directory: string;
  #postgres: EmbeddedPostgres;
  readonly #hubs: Process[] = [];
  readonly #env: Record<string, string>;
  #killed = 0;
  #restarts = 0;
  #crashes = 0;

  private constructor(directory: string, postgres: EmbeddedPostgres) {
    this.#directory = directory;
    this.#postgres = postgres;
    this.#env = {
      DATABASE_URL: postgres.connectionString,
      MILLRACE_DATA_DIR: join(directory, 'data'),
      MILLRACE_PORT: '0',
      MILLRACE_LOG_LEVEL: 'error',
      MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
      MILLRACE_ADMIN_PASSWORD: randomToken(),
    };
  }

  static async open(): Promise<Cluster> {
    const directory = await mkdtemp(join(tmpdir(), 'millrace-torture-'));
    const postgres = await startOwnPostgres(join(directory, 'database'));
    const cluster = new Cluster(directory, postgres);
    try {
      for (let n = 0; n < HUBS; n++) {
        cluster.#hubs[n] = startProcess(cluster.#env);
        await cluster.#hubs[n]?.url();
      }
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  /** The data directory that the hubs share. */
  get dataDir(): string {
    return join(this.#directory, 'data');
  }

  get breakage(): Breakage {
    return { killed: this.#killed, restarts: this.#restarts, crashes: this.#crashes };
  }

  /** Returns the URL of a hub once it serves. Fails if that process ends before. */
  url(n: number): Promise<string> {
    const hub = this.#hubs[n % HUBS];
    if (!hub) throw new Error('the cluster is closed');
    return hub.url();
  }

  /** Waits until each hub serves, or has ended. */
  async waitForHubs(): Promise<void> {
    await Promise.all(this.#hubs.map((hub) => hub.url().catch(() => null)));
  }

  /** Calls the API as an administrator. Fails unless it succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape.
  async call(method: string, path: string, body: object = {}): Promise<any> {
    const answer = await fetch(`${await this.url(0)}/api/v4${path}`, {
      method,
      headers: {
        'private-token': ADMIN_TOKEN,
        ...(body instanceof FormData ? {} : { 'content-type': 'application/json' }),
      },
      body: method === 'GET' ? null : body instanceof FormData ? body : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return answer.status === 204 ? null : answer.json();
  }

  /** Downloads a file as an administrator. Fails unless it succeeds. */
  async download(path: string): Promise<Buffer> {
    const answer = await fetch(`${await this.url(0)}/api/v4${path}`, { headers: { 'private-token': ADMIN_TOKEN } });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
    return Buffer.from(await answer.arrayBuffer());
  }

  /** Waits a moment, and then kills hubs or restarts Postgres. Returns what was done. */
  async break(random: () => number): Promise<string> {
    await sleep(random() * 600);
    const dice = random();
    if (dice < 0.2) {
      this.#restarts++;
      const crashes = random() < 0.5;
      if (crashes) await this.#crashPostgres();
      else await this.#postgres.stop();
      const how = crashes ? 'killed' : 'stopped';
      await sleep(random() * 500);
      this.#postgres = await startEmbeddedPostgres({
        dataDir: join(this.#directory, 'database'),
        log: createLogger('silent'),
      });
      if (this.#env.DATABASE_URL === this.#postgres.connectionString) return `Postgres ${how} and started again`;
      this.#env.DATABASE_URL = this.#postgres.connectionString;
      for (const n of this.#hubs.keys()) await this.#kill(n);
      return `Postgres ${how} and started elsewhere, all hubs killed`;
    }
    const which = dice < 0.4 ? [...this.#hubs.keys()] : [Math.floor(random() * HUBS)];
    for (const n of which) await this.#kill(n);
    return `${which.length} of ${HUBS} hubs killed`;
  }

  /** Waits until all hubs are up. Starts those again that ended by themselves. */
  async recover(): Promise<void> {
    for (const [n, hub] of this.#hubs.entries())
      await hub.url().catch(async () => {
        // It may still be starting.
        hub.child.kill('SIGKILL');
        await hub.ended;
        this.#hubs[n] = startProcess(this.#env);
        await this.#hubs[n]?.url();
      });
  }

  /** Kills the server and all its processes, as if the machine had crashed. Unwritten data is lost. */
  async #crashPostgres(): Promise<void> {
    this.#crashes++;
    const [row] = await this.query(`select current_setting('data_directory') as directory`);
    const postmaster = Number.parseInt(readFileSync(join(String(row?.directory), 'postmaster.pid'), 'utf8'), 10);
    if (!(postmaster > 1)) throw new Error('the process of Postgres was not found');
    const children = readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 1 && parentOf(pid) === postmaster);
    for (const pid of [postmaster, ...children]) killHard(pid);
    await until('Postgres to be gone', () => parentOf(postmaster) === null);
  }

  async #kill(n: number): Promise<void> {
    const hub = this.#hubs[n];
    hub?.child.kill('SIGKILL');
    await hub?.ended;
    this.#killed++;
    // Do not wait for the hub, so that the next failure may happen while it starts.
    const started = startProcess(this.#env);
    started.url().catch(() => {});
    this.#hubs[n] = started;
  }

  async query(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = this.client();
    try {
      await client.connect();
      return (await client.query<Record<string, unknown>>(text, values)).rows;
    } finally {
      await client.end().catch(() => {});
    }
  }

  /** Returns a client with a timeout, because a killed server never answers. */
  client(): pg.Client {
    const client = new pg.Client({
      connectionString: this.#postgres.connectionString,
      connectionTimeoutMillis: STATEMENT_MS,
      query_timeout: STATEMENT_MS,
    });
    client.on('error', () => {});
    return client;
  }

  async close(): Promise<void> {
    for (const { child } of this.#hubs) child.kill('SIGKILL');
    await Promise.all(this.#hubs.map(({ ended }) => ended));
    await this.#postgres.destroy();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

/** Returns the parent, or null if the process is gone or a zombie. */
const parentOf = (pid: number): number | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' || state === 'X' ? null : Number(parent);
  } catch {
    return null;
  }
};

const killHard = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended together with its parent.
  }
};
