import { glob } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { zipOf } from '../artifacts/support.ts';
import { type JobOrder, Protocol, type Reply } from '../support/runner/protocol.ts';
import { until } from '../support/until.ts';
import { randomFrom } from './bounded.ts';
import type { Cluster } from './cluster.ts';
import { type Rounds, runRounds, type Scene, type TortureOptions } from './rounds.ts';

export interface PipelinesVerdict {
  readonly pipelines: number;
  /** Jobs that a runner got. */
  readonly handedOut: number;
  /** Ends of jobs that the hub acknowledged. */
  readonly acknowledged: number;
  readonly artifacts: number;
  /** Jobs whose runner was killed. */
  readonly abandoned: number;
  /** The problems. Empty if there are none. */
  readonly problems: readonly string[];
}

const RUNNERS = 3;
const PIPELINES_OF_ROUND = 2;
const ROUND_MS = 120_000;
const DRAIN_MS = 180_000;
/** How long a runner repeats a call that a dying hub did not answer. */
const RETRY_MS = 60_000;

const STAGES = ['build', 'test', 'deploy'];
const CI_FILE = `
stages: [build, test, deploy]
.build:
  stage: build
  script: [make]
  artifacts: { paths: [out/] }
build-a: { extends: .build }
build-b: { extends: .build }
test-a: { stage: test, script: [make test] }
test-b: { stage: test, script: [make test] }
flaky: { stage: test, script: [make flaky], allow_failure: true }
deploy: { stage: deploy, script: [make deploy] }
`;

/**
 * Creates pipelines and runs them while hubs, runners and Postgres are killed. Then lets the remaining jobs end, and
 * checks that each pipeline ended as its jobs did, that no job was handed out twice, that what was acknowledged is
 * stored, and that no stored artifact lacks a row, or the other way round.
 */
export const torturePipelines = async (options: TortureOptions): Promise<Rounds & PipelinesVerdict> =>
  runRounds((cluster) => new PipelinesScene(cluster, options.seed), options, ROUND_MS);

class PipelinesScene implements Scene<PipelinesVerdict> {
  readonly #cluster: Cluster;
  readonly #seed: number;
  #projectId = 0;
  #token = '';
  readonly #loops: Promise<void>[] = [];
  #isCalm = false;
  #stopped = false;
  /** How often each job was handed out. */
  readonly #handedOut = new Map<number, number>();
  /** The jobs that living runners work on. */
  readonly #held = new Set<number>();
  readonly #acknowledged = new Map<number, string>();
  readonly #uploaded = new Set<number>();
  #abandoned = 0;

  constructor(cluster: Cluster, seed: number) {
    this.#cluster = cluster;
    this.#seed = seed;
  }

  async prepare(): Promise<void> {
    const { id } = await this.#cluster.call('POST', '/projects', {
      name: 'torture-pipelines',
      initialize_with_readme: true,
    });
    this.#projectId = id;
    const actions = [{ action: 'create', file_path: '.gitlab-ci.yml', content: CI_FILE }];
    const commit = { branch: 'main', commit_message: 'Run jobs [skip ci]', actions };
    await this.#cluster.call('POST', `/projects/${id}/repository/commits`, commit);
    const runner = await this.#cluster.call('POST', '/user/runners', { runner_type: 'instance_type' });
    this.#token = runner.token;
    for (let n = 0; n < RUNNERS; n++) this.#loops.push(this.#run(n, randomFrom(this.#seed * 31 + n)));
  }

  /** Creates pipelines and breaks something at the same time. Returns what was done. */
  async round(round: number): Promise<string> {
    const random = randomFrom(this.#seed * 10_007 + round);
    await this.#cluster.waitForHubs();
    const breaks = this.#cluster.break(random);
    let created = 0;
    // Answers may be lost. The database shows at the end which pipelines exist.
    const create = async () => {
      const path = `/projects/${this.#projectId}/pipeline`;
      if (await this.#cluster.call('POST', path, { ref: 'main' }).catch(() => null)) created += 1;
    };
    for (let n = 0; n < PIPELINES_OF_ROUND; n++) await create();
    const broken = await breaks;
    // Lets some jobs run between two failures.
    await this.#cluster.waitForHubs();
    if (created === 0) await create();
    await sleep(1_000);
    return `${created} pipelines, ${broken}`;
  }

  /** A runner, which is killed now and then: its job never hears of it again. */
  async #run(n: number, random: () => number): Promise<void> {
    while (!this.#stopped) {
      const job = await this.#protocol(n)
        .then((protocol) => protocol.request(AbortSignal.timeout(RETRY_MS)))
        .catch(() => null);
      if (job === null) {
        await sleep(300);
        continue;
      }
      this.#handedOut.set(job.id, (this.#handedOut.get(job.id) ?? 0) + 1);
      if (!this.#isCalm && random() < 0.08) {
        this.#abandoned++;
        continue;
      }
      this.#held.add(job.id);
      // A job that gives up stays running, like one whose runner was killed.
      await this.#work(n, job, random).catch(() => {});
      this.#held.delete(job.id);
    }
  }

  async #work(n: number, job: JobOrder, random: () => number): Promise<void> {
    const log = new Uint8Array(Buffer.from(`${'a line of the log\n'.repeat(20)}job ${job.id}\n`));
    await this.#call(n, (protocol) => protocol.patch(job, 0, log));
    await sleep(random() * 200);
    if (job.artifacts.length > 0) {
      const content = new Uint8Array(await zipOf({ 'out/a.txt': `of job ${job.id}`, 'out/b.txt': 'b'.repeat(5_000) }));
      const { status } = await this.#call(n, (protocol) =>
        protocol.send('POST', `/jobs/${job.id}/artifacts`, () => formOf(content), { 'job-token': job.token }),
      );
      if (status === 201) this.#uploaded.add(job.id);
    }
    const state = random() < (isFlaky(job) ? 0.5 : 0.1) ? 'failed' : 'success';
    const checksum = `crc32:${crc32(log).toString(16).padStart(8, '0')}`;
    const output = { checksum, bytesize: log.length };
    const reason = state === 'failed' ? { failure_reason: 'script_failure', exit_code: 1 } : {};
    const end = await this.#call(n, (protocol) => protocol.update(job, { state, output, ...reason }));
    // 403: an earlier try ended the job, and its answer was lost.
    if (end.status === 200) this.#acknowledged.set(job.id, state);
  }

  /** Repeats a call until a hub answers it, as runners do. */
  async #call(n: number, send: (protocol: Protocol) => Promise<Reply>): Promise<Reply> {
    for (const deadline = performance.now() + RETRY_MS; ; ) {
      try {
        const reply = await send(await this.#protocol(n));
        const isFinal = reply.status < 500 && reply.status !== 202 && reply.status !== 412;
        if (isFinal || (reply.status === 202 && isPatch(reply))) return reply;
      } catch {
        // The hub was killed, or Postgres is gone.
      }
      if (this.#stopped || performance.now() > deadline) throw new Error('no hub answered');
      await sleep(200);
    }
  }

  /** Talks to the hub of the moment. */
  async #protocol(n: number): Promise<Protocol> {
    const features = { cancel_gracefully: false };
    return new Protocol({ url: await this.#cluster.url(n), token: this.#token, system_id: `runner-${n}`, features });
  }

  /** Waits until all pipelines have ended. Jobs of killed runners are canceled. */
  async calm(): Promise<void> {
    await this.#cluster.recover();
    this.#isCalm = true;
    await until(
      'all pipelines to end',
      async () => {
        const running = await this.#cluster.query(
          `select id, status from jobs where project_id = $1 and status in ('running', 'canceling')`,
          [this.#projectId],
        );
        for (const { id, status } of running) {
          if (this.#held.has(Number(id))) continue;
          const path = `/projects/${this.#projectId}/jobs/${id}/cancel`;
          // It may have ended meanwhile.
          await this.#cluster.call('POST', path, status === 'canceling' ? { force: true } : {}).catch(() => null);
        }
        await sleep(300);
        const [row] = await this.#cluster.query(
          `select count(*) as n from pipelines
           where project_id = $1 and status not in ('success', 'failed', 'canceled', 'skipped')`,
          [this.#projectId],
        );
        return Number(row?.n) === 0;
      },
      DRAIN_MS,
    );
    this.#stopped = true;
    await Promise.all(this.#loops);
    // Files that were never claimed wait for a day.
    await this.#cluster.query(`update storage_removals set due_at = now() - interval '1 minute'`);
    await this.#cluster.query(`select graphile_worker.add_job('storage.remove_due', '{}'::json)`);
    await until(
      'unclaimed files to be removed',
      async () => Number((await this.#cluster.query('select count(*) as n from storage_removals'))[0]?.n) === 0,
      DRAIN_MS,
    );
  }

  async judge(): Promise<PipelinesVerdict> {
    const problems: string[] = [];
    const jobs = await this.#jobs();
    for (const [id, times] of this.#handedOut) if (times > 1) problems.push(`job ${id} was handed out ${times} times`);
    for (const [id, state] of this.#acknowledged) {
      const status = jobs.find((job) => job.id === id)?.status;
      if (status !== state) problems.push(`job ${id} was acknowledged as ${state}, and is ${status}`);
    }
    const pipelines = await this.#cluster.query('select id, status from pipelines where project_id = $1', [
      this.#projectId,
    ]);
    for (const { id, status } of pipelines) {
      const own = jobs.filter((job) => job.pipeline_id === Number(id));
      const expected = statusOf(own);
      if (status !== expected) problems.push(`pipeline ${id} is ${status} where its jobs say ${expected}`);
      problems.push(...own.flatMap((job) => orderProblem(job, own)));
    }
    problems.push(...(await this.#judgeArtifacts()));
    return {
      pipelines: pipelines.length,
      handedOut: this.#handedOut.size,
      acknowledged: this.#acknowledged.size,
      artifacts: this.#uploaded.size,
      abandoned: this.#abandoned,
      problems,
    };
  }

  async #jobs(): Promise<JobFact[]> {
    const rows = await this.#cluster.query(
      `select j.id, j.pipeline_id, j.name, j.status, j.allow_failure, s.name as stage
       from jobs j join stages s on s.id = j.stage_id where j.project_id = $1 and not j.retried`,
      [this.#projectId],
    );
    return rows.map((row) => ({
      id: Number(row.id),
      pipeline_id: Number(row.pipeline_id),
      status: String(row.status),
      allow_failure: row.allow_failure === true,
      stage: STAGES.indexOf(String(row.stage)),
    }));
  }

  async #judgeArtifacts(): Promise<string[]> {
    const rows = await this.#cluster.query(
      'select job_id, storage_key, index_key from job_artifacts where file_type = $1',
      ['archive'],
    );
    const withRow = new Set(rows.map(({ job_id }) => Number(job_id)));
    const lost = [...this.#uploaded].filter((id) => !withRow.has(id));
    const folder = join(this.#cluster.dataDir, 'storage/files');
    const stored = new Set<string>();
    for await (const entry of glob('artifacts/*/*/*', { cwd: folder })) stored.add(entry);
    const all = await this.#cluster.query('select storage_key, index_key from job_artifacts');
    const known = new Set(all.flatMap((row) => [row.storage_key, row.index_key]).filter((key) => key !== null));
    const orphans = [...stored].filter((key) => !known.has(key));
    const missing = [...known].filter((key) => !stored.has(String(key)));
    return [
      ...lost.map((id) => `the artifact of job ${id} was acknowledged and has no row`),
      ...orphans.map((key) => `${key} is stored and has no row`),
      ...missing.map((key) => `${key} has a row and is not stored`),
    ];
  }

  /** Makes the runners stop, also after a failure. */
  async close(): Promise<void> {
    this.#stopped = true;
  }
}

interface JobFact {
  readonly id: number;
  readonly pipeline_id: number;
  readonly status: string;
  readonly allow_failure: boolean;
  /** Its place in STAGES. */
  readonly stage: number;
}

/** The status that a pipeline of ended jobs must have, told without the truth table. */
const statusOf = (jobs: readonly JobFact[]): string => {
  const deciding = jobs.filter((job) => !job.allow_failure).map(({ status }) => status);
  if (deciding.includes('failed')) return 'failed';
  if (deciding.includes('canceled')) return 'canceled';
  return jobs.every(({ status }) => status === 'skipped') ? 'skipped' : 'success';
};

/** A job runs if all deciding jobs of earlier stages succeeded, and is skipped otherwise. */
const orderProblem = (job: JobFact, all: readonly JobFact[]): string[] => {
  const earlier = all.filter((other) => other.stage < job.stage && !other.allow_failure);
  const isDue = earlier.every(({ status }) => status === 'success');
  return isDue === (job.status !== 'skipped')
    ? []
    : [`job ${job.id} is ${job.status} after ${earlier.map(({ status }) => status)}`];
};

const isFlaky = (job: JobOrder): boolean =>
  job.variables.some(({ key, value }) => key === 'CI_JOB_NAME' && value === 'flaky');

/** The log is stored: 202 is the final answer to a part of it, and its range says so. */
const isPatch = (reply: Reply): boolean => reply.headers.has('range');

const formOf = (content: Uint8Array<ArrayBuffer>): FormData => {
  const form = new FormData();
  form.append('file', new Blob([content]), 'artifacts.zip');
  return form;
};
