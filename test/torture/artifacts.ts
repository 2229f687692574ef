import { randomBytes } from 'node:crypto';
import { glob, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { zipOf } from '../artifacts/support.ts';
import { until } from '../support/until.ts';
import { randomFrom } from './bounded.ts';
import type { Cluster } from './cluster.ts';
import { type Rounds, runRounds, type Scene, type TortureOptions } from './rounds.ts';

export interface ArtifactsVerdict {
  /** Uploads that the hub acknowledged. */
  readonly uploaded: number;
  /** Uploads that their runner broke off. */
  readonly cut: number;
  /** How often each kind of removal was acknowledged. */
  readonly removals: Readonly<Record<string, number>>;
  /** Artifacts of these jobs that were left at the end. */
  readonly left: number;
  /** The problems. Empty if there are none. */
  readonly problems: readonly string[];
}

const WORKERS = 4;
const PROJECTS = 3;
const JOBS_OF_PIPELINE = 3;
const ROUND_MS = 120_000;
const DRAIN_MS = 180_000;
const BOUNDARY = 'a-boundary-of-the-torture';

/**
 * Uploads artifacts, and lets them expire or deletes them in every way, while hubs and Postgres are killed and runners
 * break off. Then checks that each row has its files and each file its row, that what was acknowledged and not removed
 * is there, and that the statistics are the sums of the rows.
 */
export const tortureArtifacts = async (options: TortureOptions): Promise<Rounds & ArtifactsVerdict> =>
  runRounds((cluster) => new ArtifactsScene(cluster, options.seed), options, ROUND_MS);

interface TorturedJob {
  readonly id: number;
  readonly token: string;
  readonly projectId: number;
  readonly pipelineId: number;
}

type Removal = 'job' | 'erase' | 'pipeline' | 'bulk' | 'expiry' | 'project';

/** Some are drawn more often than others. */
const REMOVALS: readonly Removal[] = [
  ...(['job', 'job', 'job', 'erase', 'erase', 'pipeline', 'pipeline'] as const),
  ...(['expiry', 'expiry', 'expiry', 'bulk', 'project'] as const),
];

class ArtifactsScene implements Scene<ArtifactsVerdict> {
  readonly #cluster: Cluster;
  readonly #seed: number;
  readonly #jobs: TorturedJob[] = [];
  readonly #projects: number[] = [];
  /** All jobs that were ever inserted. */
  readonly #inserted = new Set<number>();
  /** Jobs whose archive was acknowledged, and was not removed since. */
  readonly #kept = new Set<number>();
  readonly #removals: Record<Removal, number> = { job: 0, erase: 0, pipeline: 0, bulk: 0, expiry: 0, project: 0 };
  #uploaded = 0;
  #cut = 0;
  #made = 0;

  constructor(cluster: Cluster, seed: number) {
    this.#cluster = cluster;
    this.#seed = seed;
  }

  async prepare(): Promise<void> {
    while (this.#projects.length < PROJECTS) await this.#addProject();
  }

  /** Works with artifacts until something was broken, and a little longer. Returns what was done. */
  async round(round: number): Promise<string> {
    const seed = this.#seed * 10_007 + round;
    const random = randomFrom(seed);
    await this.#cluster.waitForHubs();
    const [uploaded, cut] = [this.#uploaded, this.#cut];
    let isBroken = false;
    const breaking = this.#cluster.break(random).finally(() => {
      isBroken = true;
    });
    const work = async (n: number) => {
      const own = randomFrom(seed * 31 + n);
      // Whatever a killed process did not answer is no error. The end shows what became of it.
      do await this.#act(own).catch(() => sleep(50));
      while (!isBroken);
    };
    await Promise.all(Array.from({ length: WORKERS }, (_, n) => work(n)));
    const broken = await breaking;
    await this.#cluster.waitForHubs();
    await this.prepare();
    await this.#act(random).catch(() => {});
    return `${this.#uploaded - uploaded} uploads, ${this.#cut - cut} broken off, ${broken}`;
  }

  async #act(random: () => number): Promise<void> {
    if (random() < 0.65) return this.#upload(random);
    const job = this.#jobs[Math.floor(random() * this.#jobs.length)];
    const removal = REMOVALS[Math.floor(random() * REMOVALS.length)];
    if (!job || !removal) return;
    await this.#remove(removal, job);
    this.#removals[removal]++;
  }

  async #addProject(): Promise<void> {
    const name = `torture-${++this.#made}`;
    const { id } = await this.#cluster.call('POST', '/projects', { name });
    this.#projects.push(Number(id));
  }

  /** Inserts a pipeline of running jobs. */
  async #addJobs(random: () => number): Promise<void> {
    if (this.#projects.length < PROJECTS) await this.#addProject();
    const projectId = this.#projects[Math.floor(random() * this.#projects.length)] ?? 0;
    const tokens = Array.from({ length: JOBS_OF_PIPELINE }, () => `glcbt-${randomToken()}`);
    const rows = await this.#cluster.query(
      `with pipeline as (
         insert into pipelines (project_id, iid, ref, sha, status)
           select $1, coalesce(max(iid), 0) + 1, 'main', repeat('a', 40), 'running' from pipelines where project_id = $1
           returning id
       ), stage as (
         insert into stages (pipeline_id, name, status, position) select id, 'build', 'running', 0 from pipeline
           returning id, pipeline_id
       )
       insert into jobs (project_id, pipeline_id, stage_id, name, status, ref, token_digest)
         select $1, stage.pipeline_id, stage.id, 'job ' || n, 'running', 'main', digest
         from stage, unnest($2::bytea[]) with ordinality as given (digest, n) returning id, pipeline_id`,
      [projectId, tokens.map(digestToken)],
    );
    for (const [n, { id, pipeline_id }] of rows.entries()) {
      this.#inserted.add(Number(id));
      this.#jobs.push({ id: Number(id), token: tokens[n] ?? '', projectId, pipelineId: Number(pipeline_id) });
    }
  }

  /** Uploads the archive of a new job. Now and then its runner dies on the way. */
  async #upload(random: () => number): Promise<void> {
    await this.#addJobs(random);
    const job = this.#jobs.at(-1 - Math.floor(random() * JOBS_OF_PIPELINE));
    if (!job) return;
    const content = await zipOf({ 'out/a': randomBytes(Math.floor(random() * 400_000)), 'out/b': `${job.id}` });
    const dies = random() < 0.2;
    const half = Math.floor(content.length / 2);
    const body = async function* () {
      yield Buffer.from(
        `--${BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="artifacts.zip"\r\n` +
          'content-type: application/zip\r\n\r\n',
      );
      yield content.subarray(0, half);
      await sleep(random() * 100);
      if (dies) throw new Error('the runner was killed');
      yield content.subarray(half);
      yield Buffer.from(`\r\n--${BOUNDARY}--\r\n`);
    };
    if (dies) this.#cut++;
    const url = await this.#cluster.url(Math.floor(random() * 2));
    const { statusCode, body: answer } = await request(`${url}/api/v4/jobs/${job.id}/artifacts`, {
      method: 'POST',
      headers: { 'job-token': job.token, 'content-type': `multipart/form-data; boundary=${BOUNDARY}` },
      body: Readable.from(body()),
    });
    await answer.dump();
    if (statusCode !== 201) return;
    this.#uploaded++;
    // It may have been removed since its row was inserted.
    if (this.#jobs.includes(job) && this.#projects.includes(job.projectId)) this.#kept.add(job.id);
  }

  /** Removes artifacts. Even if nobody answers they may be gone, so none of them is expected any more. */
  async #remove(removal: Removal, { id, projectId, pipelineId }: TorturedJob): Promise<void> {
    const project = `/projects/${projectId}`;
    const isGone = (job: TorturedJob) => {
      if (removal === 'bulk' || removal === 'project') return job.projectId === projectId;
      return removal === 'pipeline' ? job.pipelineId === pipelineId : job.id === id;
    };
    // Uploads that are not answered yet must not be expected later.
    for (const job of this.#jobs.filter(isGone)) this.#forget(job);
    // These work in the background, and may remove later uploads too.
    if (removal === 'bulk' || removal === 'project')
      if (this.#projects.includes(projectId)) this.#projects.splice(this.#projects.indexOf(projectId), 1);
    switch (removal) {
      case 'job':
        return this.#cluster.call('DELETE', `${project}/jobs/${id}/artifacts`);
      case 'erase':
        await this.#cluster.query(`update jobs set status = 'success', token_digest = null where id = $1`, [id]);
        return this.#cluster.call('POST', `${project}/jobs/${id}/erase`);
      case 'pipeline':
        return this.#cluster.call('DELETE', `${project}/pipelines/${pipelineId}`);
      case 'bulk':
        return this.#cluster.call('DELETE', `${project}/artifacts`);
      case 'expiry':
        await this.#cluster.query('update job_artifacts set expire_at = now() where job_id = $1', [id]);
        await this.#cluster.query(`select graphile_worker.add_job('artifacts.expire', '{}'::json)`);
        return;
      case 'project': {
        const { path_with_namespace } = await this.#cluster.call('GET', project);
        await this.#cluster.call('DELETE', project);
        const forGood = new URLSearchParams({ permanently_remove: 'true', full_path: path_with_namespace });
        return this.#cluster.call('DELETE', `${project}?${forGood}`);
      }
    }
  }

  #forget(job: TorturedJob): void {
    this.#kept.delete(job.id);
    const place = this.#jobs.indexOf(job);
    if (place >= 0) this.#jobs.splice(place, 1);
  }

  /** Waits until everything that is due was removed. */
  async calm(): Promise<void> {
    await this.#cluster.recover();
    const waiting = [
      `select 1 from job_artifacts where expire_at <= now() and not locked`,
      'select 1 from storage_removals',
      `select 1 from graphile_worker.jobs where task_identifier = 'artifacts.expire_project' and attempts < max_attempts`,
      'select 1 from projects where pending_delete',
    ];
    await until(
      'everything that is due to be removed',
      async () => {
        // Files that were never claimed wait for a day.
        await this.#cluster.query(`update storage_removals set due_at = now() - interval '1 minute'`);
        for (const job of ['artifacts.expire', 'storage.remove_due']) {
          await this.#cluster.query(`select graphile_worker.add_job($1, '{}'::json, job_key := $1)`, [job]);
        }
        await sleep(1_000);
        const left = await Promise.all(waiting.map((query) => this.#cluster.query(`${query} limit 1`)));
        return left.every((rows) => rows.length === 0);
      },
      DRAIN_MS,
    );
    await until('the drafts of dead processes to be removed', async () => (await this.#drafts()) === 0, DRAIN_MS);
  }

  async #drafts(): Promise<number> {
    return (await readdir(join(this.#cluster.dataDir, 'storage/tmp')).catch(() => [])).length;
  }

  async judge(): Promise<ArtifactsVerdict> {
    const rows = await this.#cluster.query('select job_id, storage_key, index_key, size from job_artifacts');
    const folder = join(this.#cluster.dataDir, 'storage/files');
    const stored = new Map<string, number>();
    for await (const key of glob('artifacts/*/*/*', { cwd: folder }))
      stored.set(key, (await stat(join(folder, key))).size);
    const known = new Set(rows.flatMap((row) => [row.storage_key, row.index_key]).filter((key) => key !== null));
    const withRow = new Set(rows.map(({ job_id }) => Number(job_id)));
    const wrong = await this.#cluster.query(`
      select project_id, job_artifacts_size, coalesce(sum(size), 0) as sum
      from project_statistics left join job_artifacts using (project_id)
      group by project_id, job_artifacts_size having job_artifacts_size <> coalesce(sum(size), 0)`);
    const problems = [
      ...[...this.#kept].filter((id) => !withRow.has(id)).map((id) => `the artifact of job ${id} is lost`),
      ...[...stored.keys()].filter((key) => !known.has(key)).map((key) => `${key} is stored and has no row`),
      ...[...known].filter((key) => !stored.has(String(key))).map((key) => `${key} has a row and is not stored`),
      ...rows
        .filter(({ storage_key, size }) => stored.get(String(storage_key)) !== Number(size))
        .map(({ storage_key }) => `${storage_key} has another size than its row`),
      ...wrong.map(({ project_id, job_artifacts_size, sum }) => {
        return `project ${project_id} counts ${job_artifacts_size} bytes instead of ${sum}`;
      }),
    ];
    return {
      uploaded: this.#uploaded,
      cut: this.#cut,
      removals: this.#removals,
      left: rows.filter(({ job_id }) => this.#inserted.has(Number(job_id))).length,
      problems,
    };
  }

  async close(): Promise<void> {}
}
