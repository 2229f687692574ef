import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { envelope, type Item, newEventId } from '../error-ingest/sending.ts';
import { until } from '../support/until.ts';
import { randomFrom, within } from './bounded.ts';
import type { Cluster } from './cluster.ts';
import { type Rounds, runRounds, type Scene, type TortureOptions } from './rounds.ts';

interface Verdict {
  /** The events that were answered with 200. */
  readonly accepted: number;
  /** The requests without that answer, which may have been stored all the same. */
  readonly unanswered: number;
  readonly problems: readonly string[];
}

const ROUND_MS = 120_000;
const DRAIN_MS = 180_000;
const SENDERS = 8;

/**
 * Reports events while processes of the hub are killed with SIGKILL and Postgres restarts or crashes. Then lets the
 * digest finish and compares: every event that was answered with 200 is found once, the session that came with it is
 * counted once, and the counts of the errors agree with the events.
 */
export const tortureIngest = async (options: TortureOptions): Promise<Rounds & Verdict> =>
  runRounds((cluster) => new IngestScene(options.seed, cluster), options, ROUND_MS);

class IngestScene implements Scene<Verdict> {
  readonly #seed: number;
  readonly #cluster: Cluster;
  /** Whether an event was answered with 200. The others may be stored or not. */
  readonly #sent = new Map<string, boolean>();
  #projectId = 0;
  #key = '';

  constructor(seed: number, cluster: Cluster) {
    this.#seed = seed;
    this.#cluster = cluster;
  }

  async prepare(): Promise<void> {
    const project = await this.#cluster.call('POST', '/projects', { name: 'torture-ingest' });
    const key = await this.#cluster.call('POST', `/projects/${project.id}/error_tracking/client_keys`);
    this.#projectId = project.id;
    this.#key = key.public_key;
  }

  /** Sends events and breaks something at the same time. Returns what was done. */
  async round(round: number): Promise<string> {
    const random = randomFrom(this.#seed * 10_007 + round * 2);
    if (random() < 0.7) await this.#cluster.waitForHubs();
    const breaks = this.#cluster.break(randomFrom(this.#seed * 10_007 + round * 2 + 1));
    const each = 5 + Math.floor(random() * 20);
    const before = this.#accepted;
    await Promise.all(
      Array.from({ length: SENDERS }, async (_, n) => {
        for (let i = 0; i < each; i++) {
          await this.#send(n);
          await sleep(random() * 30);
        }
      }),
    );
    return `${this.#accepted - before} of ${SENDERS * each} events accepted, ${await breaks}`;
  }

  get #accepted(): number {
    return [...this.#sent.values()].filter(Boolean).length;
  }

  async #send(n: number): Promise<void> {
    const id = newEventId();
    const event = {
      ...{ event_id: id, environment: `e${n}`, message: `error of sender ${n}`, fingerprint: [`group ${n % 3}`] },
      ...{ user: { id: String(n) }, extra: { filler: 'x'.repeat(n * 500) } },
    };
    const attrs = { release: `shop@${n % 2}` };
    const session: Item = [{ type: 'session' }, { sid: id, init: true, started: new Date().toISOString(), attrs }];
    this.#sent.set(id, false);
    try {
      const url = await within(2_000, 'a hub', this.#cluster.url(n));
      const answer = await fetch(
        `${url}/api/v4/error_tracking/collector/api/${this.#projectId}/envelope/?sentry_key=${this.#key}`,
        {
          method: 'POST',
          body: new Uint8Array(gzipSync(envelope({ event_id: id }, [{ type: 'event' }, event], session))),
          headers: { 'content-encoding': 'gzip' },
          signal: AbortSignal.timeout(20_000),
        },
      );
      if (answer.status === 200 && JSON.parse(await answer.text()).id === id) this.#sent.set(id, true);
    } catch {
      // Unanswered: it may have been stored.
    }
  }

  /** Waits until all hubs are up and nothing waits to be digested. */
  async calm(): Promise<void> {
    await this.#cluster.recover();
    await until(
      'all is digested',
      async () => {
        await sleep(500);
        // A failed run waits before it is tried again.
        await this.#cluster.query(
          `update graphile_worker._private_jobs set run_at = now() where key = 'error_ingest.digest' and locked_at is null`,
        );
        const [row] = await this.#cluster.query('select count(*) as waiting from ingest_envelopes');
        return Number(row?.waiting) === 0;
      },
      DRAIN_MS,
    );
  }

  async judge(): Promise<Verdict> {
    const problems: string[] = [];
    const rows = await this.#cluster.query(
      `select replace(event_id::text, '-', '') as id, count(*)::int as count from error_events where project_id = $1 group by 1`,
      [this.#projectId],
    );
    const found = new Map(rows.map(({ id, count }) => [String(id), Number(count)]));
    const lost = [...this.#sent].filter(([id, accepted]) => accepted && !found.has(id)).length;
    if (lost > 0) problems.push(`${lost} events were answered with 200 and are not found`);
    const twice = [...found.values()].filter((count) => count > 1).length;
    if (twice > 0) problems.push(`${twice} events are stored more than once`);
    const unknown = [...found.keys()].filter((id) => !this.#sent.has(id)).length;
    if (unknown > 0) problems.push(`${unknown} events were never sent`);
    const [counts] = await this.#cluster.query(
      `select (select sum(event_count) from errors where project_id = $1)::int as counted,
         (select sum(event_count) from error_project_hours where project_id = $1)::int as by_hour,
         (select count(*) from errors where project_id = $1)::int as errors,
         (select sum(h.total) from error_session_hours h join error_releases r on r.id = h.release_id
          where r.project_id = $1)::int as sessions,
         (select count(*) from ingest_failures)::int as failures`,
      [this.#projectId],
    );
    const { counted, by_hour, sessions, errors, failures } = counts ?? {};
    if (counted !== found.size) problems.push(`the errors count ${counted} events of ${found.size}`);
    if (by_hour !== found.size) problems.push(`the hours count ${by_hour} events of ${found.size}`);
    if (sessions !== found.size) problems.push(`${sessions} sessions are counted of ${found.size}`);
    if (Number(errors) > 3) problems.push(`there are ${errors} errors of 3 fingerprints`);
    if (failures !== 0) problems.push(`${failures} envelopes were set aside`);
    const accepted = this.#accepted;
    return { accepted, unanswered: this.#sent.size - accepted, problems };
  }

  async close(): Promise<void> {}
}
