import type pg from 'pg';
import { type CompiledJob, EMPTY_JOB } from '../../../src/domains/ci-config/model.ts';
import { digestToken, randomToken } from '../../../src/platform/secrets.ts';

/** The part of the CI file about each job of the bench. */
const OPTIONS: CompiledJob = {
  ...EMPTY_JOB,
  script: ['npm ci', 'npm test'],
  variables: [{ key: 'MODE', value: 'test', raw: false }],
};

interface JobsToFill {
  /** The projects, with the commit that their pipelines are for. */
  readonly projects: readonly { readonly id: number; readonly sha: string }[];
  readonly pipelines: number;
  readonly jobsOfEach: number;
  readonly status: 'pending' | 'running' | 'success';
  readonly userId: number;
}

/** Inserts pipelines of jobs with this status, bypassing the API. Returns the ids of the jobs. */
export const fillJobs = async (
  pool: pg.Pool,
  { projects, pipelines, jobsOfEach, status, userId }: JobsToFill,
): Promise<number[]> => {
  const { rows } = await pool.query<{ id: number }>(
    `with given as (
       select p.id, p.sha, row_number() over () as place
       from unnest($1::bigint[], $2::text[]) as p (id, sha)
     ), made as (
       insert into pipelines (project_id, iid, sha, ref, status, source, user_id)
         select given.id, coalesce((select max(iid) from pipelines old where old.project_id = given.id), 0)
             + row_number() over (partition by given.id),
           given.sha, 'main', $5, 'push', $6
         from generate_series(1, $3::int) n join given on given.place = 1 + n % $7::int
         returning id, project_id
     ), staged as (
       insert into stages (pipeline_id, name, status, position) select id, 'test', $5, 0 from made
         returning id, pipeline_id
     )
     insert into jobs (project_id, pipeline_id, stage_id, stage_idx, name, status, ref, user_id, options, queued_at,
         started_at, scheduling_type)
       select made.project_id, made.id, staged.id, 0, 'test ' || n, $5, 'main', $6,
         $8::jsonb || jsonb_build_object('name', 'test ' || n), now(),
         case when $5 <> 'pending' then now() end, 'stage'
       from made join staged on staged.pipeline_id = made.id, generate_series(1, $4::int) n
       order by made.id, n
       returning id`,
    [
      projects.map(({ id }) => id),
      projects.map(({ sha }) => sha),
      pipelines,
      jobsOfEach,
      status,
      userId,
      projects.length,
      JSON.stringify(OPTIONS),
    ],
  );
  await pool.query(`insert into project_counters (project_id, kind, last_iid)
    select project_id, 'pipeline', max(iid) from pipelines group by project_id
    on conflict (project_id, kind) do update set last_iid = excluded.last_iid`);
  await pool.query('analyze pipelines, stages, jobs');
  return rows.map(({ id }) => id);
};

/** Creates a runner of the instance. Returns its token. */
export const makeRunner = async (pool: pg.Pool): Promise<string> => {
  const token = `glrt-${randomToken()}`;
  await pool.query(`insert into runners (runner_type, digest, description) values ('instance_type', $1, 'bench')`, [
    digestToken(token),
  ]);
  return token;
};

/** Gives a running job a token, and returns it. */
export const tokenOfJob = async (pool: pg.Pool, id: number): Promise<string> => {
  const token = `glcbt-${randomToken()}`;
  await pool.query('update jobs set token_digest = $2 where id = $1', [id, digestToken(token)]);
  return token;
};
