import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import pg from 'pg';
import type { EmbeddedPostgres } from '#platform/db/embedded.ts';
import { randomToken } from '#platform/secrets.ts';
import { startOwnPostgres } from '../support/own-postgres.ts';
import { commitOfLargeDelta, commitOfManyFiles, pushOf } from '../support/packs.ts';
import { type Process, startProcess } from '../system/process.ts';
import { ATTACKS, Stranger, type World } from './attacks.ts';
import { randomFrom, within } from './bounded.ts';
import type { HonestReport, HonestWork } from './honest-users.ts';

export interface StrangersOptions {
  readonly rounds: number;
  /** Determines who attacks how, apart from the timing of the machine. */
  readonly seed: number;
  /** No round starts after this time. */
  readonly seconds?: number;
  /** Whether slow answers to honest users are a problem. On a busy machine, slow answers prove nothing. */
  readonly judgesTime?: boolean;
  /** The time that each honest user waits between two requests. */
  readonly pauseMs?: number;
  readonly say?: (line: string) => void;
}

export interface StrangersVerdict {
  readonly rounds: number;
  /** The number of times each attack was made. */
  readonly attacks: Readonly<Record<string, number>>;
  readonly connections: number;
  readonly honest: {
    readonly requests: number;
    readonly failed: number;
    readonly p50Ms: number;
    readonly p99Ms: number;
    readonly maxMs: number;
    /** The slowest of them, such as `tree: 310 ms in round 2`. */
    readonly slowest: readonly string[];
  };
  readonly hubMiB: Measured;
  readonly openFiles: Measured;
  /** The memory of the largest process that the hub started. */
  readonly largestChildMiB: number;
  readonly secondsToRecover: number;
  readonly seconds: number;
  /** The problems. Empty if there are none. */
  readonly problems: readonly string[];
}

interface Measured {
  readonly idle: number;
  readonly most: number;
  readonly after: number;
}

const HONEST_USERS = 5;
/** A round lasts until honest users have been answered this often, however slow the machine is. */
const ANSWERS_PER_ROUND = 20;
const STRANGERS = 4;
/** Strangers have the addresses from 127.0.0.2 on, and honest users have 127.0.0.1. */
const ADDRESSES = 8;
const LONG_ISSUES = 100;
const LONG_TEXT = 'Lorem ipsum dolor sit amet. '.repeat(36_000);
const ADMIN_TOKEN = 'administrator-token-of-the-torture';
const ROUND_MS = 60_000;
/** The longest time that strangers keep their connections open. */
const STAY_MS = 3_000;
const WARM_UP_MS = 5_000;
const SAMPLE_MS = 200;
const RECOVERY_MS = 120_000;
const MAX_P99_MS = 500;
const MAX_GROWTH_MIB = 100;
const MAX_MORE_FILES = 20;
const MAX_CHILD_MIB = 400;
const SLOWEST = 10;

/**
 * Attacks a hub from several addresses while honest users work with it. Fails if a request of an honest user fails, if
 * most of them wait long, if the hub ends, or if its memory and open files stay high after the strangers have left.
 */
export const tortureStrangers = async ({
  rounds,
  seed,
  seconds = Number.POSITIVE_INFINITY,
  judgesTime = true,
  pauseMs = 60,
  say = () => {},
}: StrangersOptions): Promise<StrangersVerdict> => {
  const startedAt = performance.now();
  const scene = await Scene.open(seed, pauseMs);
  try {
    say('honest users begin');
    await scene.warmUp();
    let round = 0;
    while (round < rounds && !scene.hasEnded && performance.now() - startedAt < seconds * 1_000) {
      round++;
      say(`round ${round}: ${await within(ROUND_MS, `round ${round}`, scene.round(round))}`);
    }
    say('strangers have left');
    const found = await scene.judge(judgesTime);
    return { rounds: round, ...found, seconds: secondsSince(startedAt) };
  } finally {
    await scene.close();
  }
};

class Scene {
  readonly #seed: number;
  readonly #directory: string;
  readonly #postgres: EmbeddedPostgres;
  readonly #hub: Process;
  readonly #attacks = new Map<string, number>();
  #world: World | undefined;
  #honest: Worker | undefined;
  #honestReport: Promise<HonestReport> | undefined;
  readonly #answered = new Int32Array(new SharedArrayBuffer(4));
  readonly #roundStarts: number[] = [];
  #connections = 0;
  #idle: Usage = { hubMiB: 0, openFiles: 0, largestChildMiB: 0 };
  #most: Usage = this.#idle;
  #sampler: NodeJS.Timeout | undefined;
  hasEnded = false;

  private constructor(seed: number, directory: string, postgres: EmbeddedPostgres) {
    this.#seed = seed;
    this.#directory = directory;
    this.#postgres = postgres;
    this.#hub = startProcess({
      DATABASE_URL: postgres.connectionString,
      MILLRACE_DATA_DIR: join(directory, 'data'),
      MILLRACE_PORT: '0',
      MILLRACE_LOG_LEVEL: 'error',
      MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
      MILLRACE_ADMIN_PASSWORD: randomToken(),
    });
    this.#hub.ended.then(() => {
      this.hasEnded = true;
    });
  }

  static async open(seed: number, pauseMs: number): Promise<Scene> {
    const directory = await mkdtemp(join(tmpdir(), 'millrace-torture-'));
    const postgres = await startOwnPostgres(join(directory, 'database'));
    const scene = new Scene(seed, directory, postgres);
    try {
      await scene.#prepare(pauseMs);
      return scene;
    } catch (error) {
      await scene.close();
      throw error;
    }
  }

  async #prepare(pauseMs: number): Promise<void> {
    const url = await this.#hub.url();
    const tokens: string[] = [];
    for (let n = 0; n <= HONEST_USERS; n++) tokens.push(await this.#makeUser(url, `user${n}`));
    const [stranger = '', ...honest] = tokens;
    const project = await this.#makeProject(url, ADMIN_TOKEN, 'honest');
    this.#world = { url, token: stranger, ...(await this.#makeProject(url, stranger, 'strange')) };
    await this.#fillStrangeProject(this.#world);
    this.#startHonest({ url, tokens: honest, ...project, seed: this.#seed, pauseMs, answered: this.#answered });
  }

  async #makeUser(url: string, username: string): Promise<string> {
    const { id } = await call(url, ADMIN_TOKEN, '/users', {
      username,
      name: username,
      email: `${username}@example.com`,
      password: randomToken(),
      skip_confirmation: true,
    });
    const scopes = ['api'];
    const { token } = await call(url, ADMIN_TOKEN, `/users/${id}/personal_access_tokens`, { name: 'torture', scopes });
    return String(token);
  }

  async #makeProject(url: string, token: string, path: string): Promise<{ projectId: number; projectPath: string }> {
    const project = await call(url, token, '/projects', { name: path, path, visibility: 'public' });
    await call(url, token, `/projects/${project.id}/repository/files/README.md`, {
      branch: 'main',
      content: 'Read me.\n'.repeat(1_000),
      commit_message: 'Begin',
    });
    return { projectId: Number(project.id), projectPath: String(project.path_with_namespace) };
  }

  /** Fills the project with records that are expensive to read: long texts, many files, and a large one. */
  async #fillStrangeProject({ url, token, projectId, projectPath }: World): Promise<void> {
    const long = await call(url, token, `/projects/${projectId}/issues`, { title: 'Long', description: LONG_TEXT });
    await this.#copyIssue(Number(long.id), LONG_ISSUES - 1);
    const branches = { many: commitOfManyFiles(5), large: commitOfLargeDelta(48) };
    for (const [branch, { oid, pack }] of Object.entries(branches)) {
      const answer = await fetch(`${url}/${projectPath}.git/git-receive-pack`, {
        method: 'POST',
        headers: { 'private-token': token, 'content-type': 'application/x-git-receive-pack-request' },
        body: new Uint8Array(pushOf(`refs/heads/${branch}`, oid, pack)),
      });
      const text = await answer.text();
      if (!text.includes(`ok refs/heads/${branch}`)) throw new Error(`the push of ${branch} was answered: ${text}`);
    }
  }

  /**
   * Sending each text to the hub would take longer than all rounds of the test. The numbers of the copies are far above
   * those that the hub gives to the issues of strangers.
   */
  async #copyIssue(id: number, copies: number): Promise<void> {
    const client = new pg.Client({ connectionString: this.#postgres.connectionString });
    await client.connect();
    try {
      await client.query(
        `insert into issues (project_id, iid, title, description, author_id)
           select project_id, 1000000 + n, title || ' ' || n, description, author_id
           from issues, generate_series(1, $2::int) n where id = $1`,
        [id, copies],
      );
    } finally {
      await client.end();
    }
  }

  #startHonest(work: HonestWork): void {
    const worker = new Worker(new URL('honest-users.ts', import.meta.url), { workerData: work });
    this.#honest = worker;
    this.#honestReport = new Promise((resolve, reject) => {
      worker.once('message', resolve).once('error', reject);
    });
    // The report is awaited at the end, or never if something else has failed.
    this.#honestReport.catch(() => {});
  }

  /** Runs only the honest users. The resources used then are the level that the hub has to return to. */
  async warmUp(): Promise<void> {
    await sleep(WARM_UP_MS);
    this.#idle = this.#usage();
    this.#most = this.#idle;
    this.#sampler = setInterval(() => {
      const { hubMiB, openFiles, largestChildMiB } = this.#usage();
      this.#most = {
        hubMiB: Math.max(this.#most.hubMiB, hubMiB),
        openFiles: Math.max(this.#most.openFiles, openFiles),
        largestChildMiB: Math.max(this.#most.largestChildMiB, largestChildMiB),
      };
    }, SAMPLE_MS);
  }

  async round(round: number): Promise<string> {
    const world = this.#world;
    if (!world) throw new Error('nothing was prepared');
    this.#roundStarts.push(Date.now());
    const answered = Atomics.load(this.#answered, 0);
    const random = randomFrom(this.#seed * 10_007 + round);
    const names = Object.keys(ATTACKS);
    const made: string[] = [];
    const strangers = Array.from({ length: STRANGERS }, async (_, index) => {
      // Each stranger has its own random numbers, because their order is not fixed.
      const own = randomFrom(this.#seed * 10_007 + round * 31 + index);
      const stranger = new Stranger(world, `127.0.0.${2 + Math.floor(own() * ADDRESSES)}`, own);
      const name = names[Math.floor(random() * names.length)] ?? '';
      made.push(name);
      this.#attacks.set(name, (this.#attacks.get(name) ?? 0) + 1);
      const stay = own() * STAY_MS;
      try {
        await ATTACKS[name]?.(stranger);
        await sleep(stay);
      } finally {
        stranger.leave();
        this.#connections += stranger.connections;
      }
    });
    await Promise.all(strangers);
    while (!this.hasEnded && Atomics.load(this.#answered, 0) - answered < ANSWERS_PER_ROUND) await sleep(SAMPLE_MS);
    return `${made.join(', ')} (hub ${this.#usage().hubMiB} MiB)`;
  }

  async judge(judgesTime: boolean): Promise<Omit<StrangersVerdict, 'rounds' | 'seconds'>> {
    this.#honest?.postMessage('stop');
    const report = await within(ROUND_MS, 'the work of honest users', this.#honestReport ?? Promise.reject());
    clearInterval(this.#sampler);
    const leftAt = performance.now();
    const isBack = ({ hubMiB, openFiles }: Usage): boolean =>
      hubMiB - this.#idle.hubMiB <= MAX_GROWTH_MIB && openFiles - this.#idle.openFiles <= MAX_MORE_FILES;
    while (!this.hasEnded && !isBack(this.#usage()) && performance.now() - leftAt < RECOVERY_MS) await sleep(SAMPLE_MS);
    const after = this.#usage();
    const answers = report.answers.toSorted((a, b) => a.ms - b.ms);
    const percentile = (share: number): number => Math.round(answers[Math.ceil(answers.length * share) - 1]?.ms ?? 0);
    const slowest = answers.slice(-SLOWEST).reverse();
    const problems: string[] = [];
    if (this.hasEnded)
      problems.push(`the hub ended with ${await this.#hub.ended}: ${this.#hub.log.slice(-20).join('\n')}`);
    if (answers.length === 0) problems.push('no honest request was answered');
    if (report.failures.length > 0)
      problems.push(`${report.failures.length} honest requests failed, such as ${report.failures[0]}`);
    if (judgesTime && percentile(0.99) > MAX_P99_MS)
      problems.push(`honest requests had to wait for more than ${MAX_P99_MS} ms`);
    if (this.#most.largestChildMiB > MAX_CHILD_MIB)
      problems.push(`a process of the hub took up ${this.#most.largestChildMiB} MiB`);
    if (!this.hasEnded && !isBack(after)) problems.push('memory or open files did not come back');
    const measured = (key: keyof Usage): Measured => ({
      idle: this.#idle[key],
      most: this.#most[key],
      after: after[key],
    });
    return {
      attacks: Object.fromEntries([...this.#attacks].sort()),
      connections: this.#connections,
      honest: {
        requests: answers.length + report.failures.length,
        failed: report.failures.length,
        p50Ms: percentile(0.5),
        p99Ms: percentile(0.99),
        maxMs: percentile(1),
        slowest: slowest.map(({ kind, ms, at }) => `${kind}: ${Math.round(ms)} ms in round ${this.#roundAt(at)}`),
      },
      hubMiB: measured('hubMiB'),
      openFiles: measured('openFiles'),
      largestChildMiB: this.#most.largestChildMiB,
      secondsToRecover: secondsSince(leftAt),
      problems,
    };
  }

  /** The number of the round that ran at this time; 0 before the first. */
  #roundAt(time: number): number {
    return this.#roundStarts.filter((start) => start <= time).length;
  }

  #usage(): Usage {
    const pid = this.#hub.child.pid ?? 0;
    return {
      hubMiB: residentMiB(pid),
      openFiles: openFiles(pid),
      largestChildMiB: Math.max(0, ...descendants(pid).map(residentMiB)),
    };
  }

  async close(): Promise<void> {
    clearInterval(this.#sampler);
    await this.#honest?.terminate();
    this.#hub.child.kill('SIGTERM');
    const killer = setTimeout(() => this.#hub.child.kill('SIGKILL'), 15_000);
    await this.#hub.ended;
    clearTimeout(killer);
    await this.#postgres.destroy();
    await rm(this.#directory, { recursive: true, force: true });
  }
}

interface Usage {
  readonly hubMiB: number;
  readonly openFiles: number;
  readonly largestChildMiB: number;
}

const call = async (url: string, token: string, path: string, body: object): Promise<Record<string, unknown>> => {
  const answer = await fetch(`${url}/api/v4${path}`, {
    method: 'POST',
    headers: { 'private-token': token, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
  return answer.json();
};

const secondsSince = (start: number): number => Math.round((performance.now() - start) / 1_000);

/** Returns 0 for a process that is gone. */
const residentMiB = (pid: number): number => {
  try {
    const [, kib] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Math.round(Number(kib ?? 0) / 1024);
  } catch {
    return 0;
  }
};

const openFiles = (pid: number): number => {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
};

const descendants = (pid: number): number[] => childrenOf(pid).flatMap((child) => [child, ...descendants(child)]);

const childrenOf = (pid: number): number[] => {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
};
