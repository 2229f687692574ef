import { type Ending, finishJob, runJobs } from '#domains/ci/transitions.ts';
import type { TestApp, TestUser } from '../support/app.ts';

export type Scene = Awaited<ReturnType<typeof pipelineScene>>;

interface Runner {
  readonly id: number;
  readonly manager_id: number;
}

interface SeenJob {
  readonly id: number;
  readonly name: string;
  readonly status: string;
  readonly failure_reason?: string;
}

/** A project with a CI file, its owner, and what a runner would do to the jobs of its pipelines. */
export const pipelineScene = async (
  app: TestApp,
  file: string | null,
  attributes: Record<string, unknown> = {},
  by?: TestUser,
) => {
  const owner = by ?? (await app.make.user());
  const project = await app.make.project({ visibility: 'private', ...attributes }, owner);
  const client = app.as(owner);
  const path = `/projects/${project.id}`;
  let revision = 0;
  const commit = async (files: Readonly<Record<string, string>>, { message = 'Change', branch = 'main' } = {}) => {
    const actions = Object.entries(files).map(([file_path, content]) => ({ action: 'create', file_path, content }));
    const { body } = await client.post(`${path}/repository/commits`, {
      branch,
      commit_message: message,
      actions,
    });
    await app.settle();
    return String(body.id);
  };
  /** Commits a file of a new name. */
  const change = (options?: { message?: string; branch?: string }) => commit({ [`change-${++revision}`]: '' }, options);
  const sha = await commit(file === null ? { README: 'x' } : { '.gitlab-ci.yml': file });
  const pipelines = async (query = ''): Promise<{ id: number; status: string; [key: string]: unknown }[]> =>
    (await client.get(`${path}/pipelines${query}`)).body;
  const newest = async () => {
    const [pipeline] = await pipelines();
    if (!pipeline) throw new Error('no pipeline');
    return pipeline;
  };
  const create = async (body: Record<string, unknown> = {}) => {
    const answer = await client.post(`${path}/pipeline`, { ref: 'main', ...body });
    await app.settle();
    return answer;
  };
  const statusOf = async (id: number): Promise<string> => (await client.get(`${path}/pipelines/${id}`)).body.status;
  /** The jobs and bridges of a pipeline by name, without retried ones. */
  const jobs = async (id: number): Promise<Record<string, SeenJob>> => {
    const [builds, bridges] = await Promise.all([
      client.get(`${path}/pipelines/${id}/jobs?per_page=100`),
      client.get(`${path}/pipelines/${id}/bridges?per_page=100`),
    ]);
    return Object.fromEntries([...builds.body, ...bridges.body].map((job) => [job.name, job]));
  };
  /** `build success, test pending`, in the order of the file. */
  const shown = async (id: number): Promise<string> =>
    Object.values(await jobs(id))
      .sort((a, b) => a.id - b.id)
      .map((job) => `${job.name} ${job.status}`)
      .join(', ');
  const jobId = async (id: number, name: string): Promise<number> => {
    const job = (await jobs(id))[name];
    if (!job) throw new Error(`no job ${name}`);
    return job.id;
  };
  const runner = await insertRunner(app);
  const run = async (id: number, name: string): Promise<number> => {
    const job = await jobId(id, name);
    const assignment = { id: job, runner_id: runner.id, runner_manager_id: runner.manager_id, timeout: 3_600 };
    if (!(await app.context().transaction((tx) => runJobs(tx, [assignment]))).has(job))
      throw new Error(`${name} is not pending`);
    return job;
  };
  /** Ends a running job. */
  const end = async (job: number, ending: Ending | Ending['status'] = 'success') => {
    await app
      .context()
      .transaction((tx) => finishJob(tx, job, typeof ending === 'string' ? { status: ending } : ending));
    await app.settle();
  };
  /** Runs a pending job to its end. */
  const finish = async (id: number, name: string, ending?: Ending | Ending['status']) => {
    const job = await run(id, name);
    await end(job, ending);
    return job;
  };
  return {
    ...{ owner, project, client, path, sha, runner },
    ...{ commit, change, pipelines, newest, create, statusOf, jobs, shown, jobId, run, end, finish },
  };
};

const insertRunner = async (app: TestApp): Promise<Runner> => {
  const { pool } = app.hub.services;
  const { rows } = await pool.query(
    `with runner as (
       insert into runners (runner_type, digest) values ('instance_type', decode(md5(random()::text), 'hex')) returning id
     )
     insert into runner_managers (runner_id, system_id) select id, 's_1' from runner returning runner_id, id`,
  );
  return { id: rows[0].runner_id, manager_id: rows[0].id };
};
