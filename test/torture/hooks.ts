import { createServer, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../support/until.ts';
import { randomFrom } from './bounded.ts';
import type { Cluster } from './cluster.ts';
import { type Rounds, runRounds, type Scene, type TortureOptions } from './rounds.ts';

interface Verdict {
  readonly events: number;
  readonly deliveries: number;
  /** The number of requests received. It exceeds the deliveries, because some were retried. */
  readonly requests: number;
  /** The problems. Empty if there are none. */
  readonly problems: readonly string[];
}

const HOOKS = 3;
const DRAIN_MS = 180_000;
const ROUND_MS = 120_000;

/**
 * Commits events while processes of the hub are killed with SIGKILL and Postgres restarts. The receivers answer with
 * errors, late, or not at all. Then lets the remaining work finish and compares the results: every event has a delivery
 * for each hook, every delivery was made, and only committed events were received.
 */
export const tortureHooks = async (options: TortureOptions): Promise<Rounds & Verdict> =>
  runRounds((cluster) => new HooksScene(options.seed, cluster), options, ROUND_MS);

class HooksScene implements Scene<Verdict> {
  readonly #seed: number;
  /** Random numbers for the receiver's answers only, because the order of requests depends on the machine. */
  readonly #random: () => number;
  readonly #cluster: Cluster;
  readonly #receiver: Server;
  /** Whether a request was answered with success, by hook path and key. */
  readonly #received = new Map<string, boolean>();
  #isCalm = false;
  #requests = 0;
  #groupId = 0;

  constructor(seed: number, cluster: Cluster) {
    this.#seed = seed;
    this.#random = randomFrom(seed);
    this.#cluster = cluster;
    this.#receiver = createServer((request, response) => {
      request.resume().on('end', () => this.#answer(String(request.headers['idempotency-key']), request.url, response));
    });
  }

  async prepare(): Promise<void> {
    await new Promise<void>((resolve) => this.#receiver.listen(0, '127.0.0.1', resolve));
    const cluster = this.#cluster;
    await cluster.call('PUT', '/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    const group = await cluster.call('POST', '/groups', { name: 'torture', path: 'torture' });
    this.#groupId = group.id;
    const address = this.#receiver.address();
    if (address === null || typeof address === 'string') throw new Error('the receiver has no address');
    for (let n = 0; n < HOOKS; n++)
      await cluster.call('POST', `/groups/${group.id}/hooks`, {
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
    if (random() < 0.7) await this.#cluster.waitForHubs();
    const breaks = this.#cluster.break(randomFrom(this.#seed * 10_007 + round * 2 + 1));
    for (let n = 0; n < count; n++) {
      await this.#commit(1 + Math.floor(random() * 4));
      await sleep(random() * 40);
    }
    return `${count} commits, ${await breaks}`;
  }

  /** Commits events in their own transaction. If the database is down, either none or all of them are committed. */
  async #commit(count: number): Promise<void> {
    const client = this.#cluster.client();
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
    await this.#cluster.recover();
    await until(
      'all is delivered',
      async () => {
        await this.#cluster.query(
          `update webhooks set disabled_until = null, recent_failures = 0 where disabled_until is not null`,
        );
        await this.#cluster.query(`
          update webhook_queue set state = 'waiting', next_attempt_at = now()
          where state = 'held' or (state = 'waiting' and next_attempt_at > now())`);
        await sleep(500);
        const [row] = await this.#cluster.query(
          `
          select (select count(*) from events where position is null) as unsequenced,
            (select count(*) from webhook_queue) as open,
            (select count(*) from events e where e.kind = 'group.created' and e.actor_id is null and e.namespace_ids = array[$1::bigint]
              and not exists (select from webhook_payloads p where p.event_id = e.id)) as unseen`,
          [this.#groupId],
        );
        return row !== undefined && Number(row.unsequenced) + Number(row.open) + Number(row.unseen) === 0;
      },
      DRAIN_MS,
    );
  }

  async judge(): Promise<Verdict> {
    const problems: string[] = [];
    const [counts] = await this.#cluster.query(
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
    const rows = await this.#cluster.query(
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
      problems,
    };
  }

  async close(): Promise<void> {
    this.#receiver.closeAllConnections();
    this.#receiver.close();
  }
}
