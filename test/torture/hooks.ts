import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { createLogger } from '#platform/log.ts';
import { randomToken } from '#platform/secrets.ts';
import { until } from '../support/until.ts';
import { type Process, startProcess } from '../system/process.ts';
import { randomFrom, within } from './bounded.ts';

export interface TortureOptions {
  readonly rounds: number;
  /** Determines what happens and when, apart from the timing of the machine. */
  readonly seed: number;
  /** No round starts after this time. Events committed by then are checked. */
  readonly seconds?: number;
  readonly say?: (line: string) => void;
}

export interface Verdict {
  readonly rounds: number;
  readonly events: number;
  readonly deliveries: number;
  /** The number of requests received. It exceeds the deliveries, because some were retried. */
  readonly requests: number;
  readonly killed: number;
  readonly restarts: number;
  /** The number of restarts after SIGKILL to all processes of Postgres at once. */
  readonly crashes: number;
  readonly seconds: number;
  /** What went wrong. Empty if all is well. */
  readonly problems: readonly string[];
}

const HUBS = 2;
const HOOKS = 3;
const ADMIN_TOKEN = 'administrator-token-of-the-torture';
const DRAIN_MS = 180_000;
const ROUND_MS = 120_000;
const STATEMENT_MS = 30_000;

/**
 * Commits events while processes of the hub are killed with SIGKILL and Postgres restarts. The receivers answer with
 * errors, late, or not at all. Then lets the remaining work finish and compares the results: every event has a delivery
 * for each hook, every delivery was made, and only committed events were received.
 */
export const tortureHooks = async ({
  rounds,
  seed,
  seconds = Number.POSITIVE_INFINITY,
  say = () => {},
}: TortureOptions): Promise<Verdict> => {
  const startedAt = performance.now();
  const scene = await Scene.open(seed);
  try {
    let round = 0;
    while (round < rounds && performance.now() - startedAt < seconds * 1_000) {
      round++;
      say(`round ${round}: ${await within(ROUND_MS, `round ${round}`, scene.round(round))}`);
    }
    say('letting what is left be delivered');
    await scene.calm();
    const found = await scene.judge();
    return { rounds: round, ...found, seconds: Math.round((performance.now() - startedAt) / 1_000) };
  } finally {
    await scene.close();
  }
};

class Scene {
  readonly #seed: number;
  /** Random numbers for the receiver's answers only, because the order of requests depends on the machine. */
  readonly #random: () => number;
  readonly #directory: string;
  #postgres: EmbeddedPostgres;
  readonly #receiver: Server;
  readonly #hubs: Process[] = [];
  /** Whether a request was answered with success, by hook path and key. */
  readonly #received = new Map<string, boolean>();
  readonly #env: Record<string, string> = {};
  #isCalm = false;
  #requests = 0;
  #killed = 0;
  #restarts = 0;
  #crashes = 0;
  #groupId = 0;

  private constructor(seed: number, directory: string, postgres: EmbeddedPostgres) {
    this.#seed = seed;
    this.#random = randomFrom(seed);
    this.#directory = directory;
    this.#postgres = postgres;
    this.#receiver = createServer((request, response) => {
      request.resume().on('end', () => this.#answer(String(request.headers['idempotency-key']), request.url, response));
    });
  }

  static async open(seed: number): Promise<Scene> {
    const directory = await mkdtemp(join(tmpdir(), 'millrace-torture-'));
    const postgres = await startEmbeddedPostgres({ dataDir: join(directory, 'database'), log: createLogger('silent') });
    const scene = new Scene(seed, directory, postgres);
    try {
      await scene.#prepare();
      return scene;
    } catch (error) {
      await scene.close();
      throw error;
    }
  }

  async #prepare(): Promise<void> {
    await new Promise<void>((resolve) => this.#receiver.listen(0, '127.0.0.1', resolve));
    Object.assign(this.#env, {
      DATABASE_URL: this.#postgres.connectionString,
      MILLRACE_DATA_DIR: join(this.#directory, 'data'),
      MILLRACE_PORT: '0',
      MILLRACE_LOG_LEVEL: 'error',
      MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
      MILLRACE_ADMIN_PASSWORD: randomToken(),
    });
    for (let n = 0; n < HUBS; n++) {
      this.#hubs[n] = startProcess(this.#env);
      await this.#hubs[n]?.url();
    }
    const url = await this.#hubs[0]?.url();
    const call = async (method: string, path: string, body: object): Promise<{ id: number }> => {
      const answer = await fetch(`${url}/api/v4${path}`, {
        method,
        headers: { 'private-token': ADMIN_TOKEN, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
      return answer.json();
    };
    await call('PUT', '/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    const group = await call('POST', '/groups', { name: 'torture', path: 'torture' });
    this.#groupId = group.id;
    const address = this.#receiver.address();
    if (address === null || typeof address === 'string') throw new Error('the receiver has no address');
    for (let n = 0; n < HOOKS; n++)
      await call('POST', `/groups/${group.id}/hooks`, {
        url: `http://127.0.0.1:${address.port}/${n}`,
        push_events: false,
        subgroup_events: true,
      });
  }

  /** Commits events and breaks something at the same time. Returns what was done. */
  async round(round: number): Promise<string> {
    const random = randomFrom(this.#seed * 10_007 + round * 2);
    const count = 5 + Math.floor(random() * 40);
    // In most rounds the hubs are up before something breaks. In the others it happens while they start.
    if (random() < 0.7) await Promise.all(this.#hubs.map((hub) => hub.url().catch(() => null)));
    const breaks = this.#break(randomFrom(this.#seed * 10_007 + round * 2 + 1));
    for (let n = 0; n < count; n++) {
      await this.#commit(1 + Math.floor(random() * 4));
      await sleep(random() * 40);
    }
    return `${count} commits, ${await breaks}`;
  }

  async #break(random: () => number): Promise<string> {
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

  /** Kills the server and all its processes, as if the machine had crashed. Unwritten data is lost. */
  async #crashPostgres(): Promise<void> {
    this.#crashes++;
    const [row] = await this.#query(`select current_setting('data_directory') as directory`);
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

  /** Commits events in their own transaction. If the database is down, either none or all of them are committed. */
  async #commit(count: number): Promise<void> {
    const client = this.#client();
    try {
      await client.connect();
      await client.query(
        `with made as (
           insert into events (kind, actor_id, subject_type, subject_id, namespace_ids, payload)
           select 'group.created', null, 'Group', $1::bigint, array[$1::bigint], jsonb_build_object(
             'id', 1000000 + n, 'name', 'made up', 'path', 'made-up', 'full_path', 'torture/made-up',
             'visibility', 'private', 'owner_id', null, 'parent', jsonb_build_object('id', $1::bigint, 'name', 'torture', 'path', 'torture', 'full_path', 'torture'),
             'created_at', now(), 'updated_at', now())
           from generate_series(1, $2::int) n)
         select pg_notify('event_committed', '')`,
        [this.#groupId, count],
      );
    } catch {
      // The log shows at the end whether the transaction committed.
    } finally {
      await client.end().catch(() => {});
    }
  }

  #answer(key: string, path: string | undefined, response: ServerResponse): void {
    this.#requests++;
    const id = `${path} ${key}`;
    const dice = this.#isCalm ? 1 : this.#random();
    const taken = (delayMs: number) =>
      setTimeout(() => {
        if (response.destroyed) return;
        this.#received.set(id, true);
        response.writeHead(200).end();
      }, delayMs);
    this.#received.set(id, this.#received.get(id) ?? false);
    if (dice < 0.03) response.writeHead(500).end();
    // The request was received, but its answer is lost.
    else if (dice < 0.05) response.destroy();
    else taken(dice < 0.2 ? 250 : 0);
  }

  /** Waits until all hubs are up, receivers answer normally, and retries are due. */
  async calm(): Promise<void> {
    this.#isCalm = true;
    for (const [n, hub] of this.#hubs.entries())
      await hub.url().catch(async () => {
        this.#hubs[n] = startProcess(this.#env);
        await this.#hubs[n]?.url();
      });
    await until(
      'all is delivered',
      async () => {
        await this.#query(
          `update webhooks set disabled_until = null, recent_failures = 0 where disabled_until is not null`,
        );
        await this.#query(`
          update webhook_deliveries set state = 'waiting', next_attempt_at = now()
          where state = 'held' or (state = 'waiting' and next_attempt_at > now())`);
        await sleep(500);
        const [row] = await this.#query(
          `
          select (select count(*) from events where position is null) as unsequenced,
            (select count(*) from webhook_deliveries where state in ('waiting', 'held', 'sending')) as open,
            (select count(*) from events e where e.kind = 'group.created' and e.actor_id is null and e.namespace_ids = array[$1::bigint]
              and not exists (select from webhook_payloads p where p.event_id = e.id)) as unseen`,
          [this.#groupId],
        );
        return row !== undefined && Number(row.unsequenced) + Number(row.open) + Number(row.unseen) === 0;
      },
      DRAIN_MS,
    );
  }

  async judge(): Promise<Omit<Verdict, 'rounds' | 'seconds'>> {
    const problems: string[] = [];
    const [counts] = await this.#query(
      `select count(*) as events, count(*) filter (where found.deliveries <> ${HOOKS}) as wrong,
         coalesce(sum(found.deliveries), 0) as deliveries
       from events e cross join lateral (
         select count(*) as deliveries from webhook_payloads p join webhook_deliveries d on d.payload_id = p.id
         where p.event_id = e.id) found
       where e.kind = 'group.created' and e.actor_id is null and e.namespace_ids = array[$1::bigint]`,
      [this.#groupId],
    );
    const wrong = Number(counts?.wrong ?? 0);
    if (wrong > 0) problems.push(`${wrong} events do not have a delivery for each of the ${HOOKS} hooks`);
    const rows = await this.#query(
      `select d.id, d.state, w.url from webhook_deliveries d join webhooks w on w.id = d.webhook_id`,
    );
    const committed = new Set(rows.map(({ id, url }) => `${URL.parse(String(url))?.pathname} ${id}`));
    const undelivered = rows.filter(({ state }) => state !== 'delivered').length;
    if (undelivered > 0) problems.push(`${undelivered} deliveries were not made`);
    const missing = [...committed].filter((key) => this.#received.get(key) !== true).length;
    if (missing > 0) problems.push(`${missing} deliveries are said to be made, and never came`);
    const foreign = [...this.#received.keys()].filter((key) => !committed.has(key)).length;
    if (foreign > 0) problems.push(`${foreign} keys came that belong to no committed event`);
    return {
      events: Number(counts?.events ?? 0),
      deliveries: rows.length,
      requests: this.#requests,
      killed: this.#killed,
      restarts: this.#restarts,
      crashes: this.#crashes,
      problems,
    };
  }

  async #query(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    const client = this.#client();
    try {
      await client.connect();
      return (await client.query<Record<string, unknown>>(text, values)).rows;
    } finally {
      await client.end().catch(() => {});
    }
  }

  /** Returns a client with a timeout, because a killed server never answers. */
  #client(): pg.Client {
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
    this.#receiver.closeAllConnections();
    this.#receiver.close();
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
