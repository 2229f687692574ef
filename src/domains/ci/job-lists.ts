import { type RawBuilder, sql } from 'kysely';
import { openFrom, projectIsVisible, projectLevel } from '#domains/access/policy.ts';
import { canRead, requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { RunnerType } from '#domains/runners/model.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { forbidden } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import type { CiStatus, JobKind } from './model.ts';
import { JOBS_BY_ID, type JobRow, jobQuery } from './queries.ts';

export interface JobFilter {
  readonly statuses?: readonly CiStatus[] | null | undefined;
  /** Defaults to builds and bridges. */
  readonly kinds?: readonly JobKind[] | null | undefined;
  /** True: only retried jobs. False: without them. Absent: both. */
  readonly retried?: boolean | null | undefined;
  /** The `when` of the CI file. */
  readonly when?: readonly string[] | null | undefined;
  /** True: only jobs that left files. */
  readonly with_artifacts?: boolean | null | undefined;
  /** Only jobs that ran on runners of these types. */
  readonly runner_types?: readonly RunnerType[] | null | undefined;
}

/** Lists the jobs of a project or of one of its pipelines, newest first. @throws as `requireAbility` */
export const listJobs = (
  ctx: Context,
  project: ProjectRow,
  filter: JobFilter & { readonly pipeline_id?: number | undefined } = {},
): List<JobRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  let query = matchingJobs(ctx, filter).where('jobs.project_id', '=', project.id);
  if (filter.pipeline_id !== undefined) query = query.where('jobs.pipeline_id', '=', filter.pipeline_id);
  return listOf(ctx.db, query, JOBS_BY_ID, 'desc');
};

/** Lists the jobs of all projects, newest first. For administrators. @throws DomainError `forbidden` */
export const listAllJobs = (ctx: Context, filter: JobFilter): List<JobRow> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  return listOf(ctx.db, matchingJobs(ctx, filter), JOBS_BY_ID, 'desc');
};

/** Lists the jobs of many projects, pipelines or stages at once. The caller checks access. */
export const listJobsBelow = (
  ctx: Context,
  kind: 'project' | 'pipeline' | 'stage',
  filter: JobFilter,
): BatchedList<JobRow> =>
  batchedListOf(
    ctx.db,
    (parentId) => matchingJobs(ctx, filter).where(`jobs.${kind}_id`, '=', parentId),
    JOBS_BY_ID,
    // Jobs within a pipeline are listed in execution order.
    kind === 'project' ? 'desc' : 'asc',
  );

/**
 * Lists the jobs that ran on a runner, in projects whose pipelines the caller can read. The caller has checked that they
 * manage the runner.
 */
export const listJobsOfRunner = (
  ctx: Context,
  runnerId: number,
  filter: JobFilter & { readonly system_id?: string | undefined; readonly sort?: SortDirection | undefined },
): List<JobRow> => {
  let query = matchingJobs(ctx, filter).where('jobs.runner_id', '=', runnerId).where(isInReadableProject(ctx));
  if (filter.system_id !== undefined) {
    query = query.where(sql<boolean>`jobs.runner_manager_id in (
      select m.id from runner_managers m where m.runner_id = ${runnerId} and m.system_id = ${filter.system_id})`);
  }
  return listOf(ctx.db, query, JOBS_BY_ID, filter.sort ?? 'desc');
};

/** The same for many runners at once. */
export const listJobsOfRunnersBelow = (ctx: Context, filter: JobFilter): BatchedList<JobRow> =>
  batchedListOf(
    ctx.db,
    (runnerId) => matchingJobs(ctx, filter).where('jobs.runner_id', '=', runnerId).where(isInReadableProject(ctx)),
    JOBS_BY_ID,
    'desc',
  );

const isInReadableProject = ({ actor }: Context): RawBuilder<boolean> => {
  if (actor.isAdmin) return sql<boolean>`true`;
  const asking = { level: projectLevel(actor, 'p'), openFrom: sql<number>`${sql.lit(openFrom(actor))}` };
  return sql<boolean>`exists (select 1 from projects p where p.id = jobs.project_id
    and ${projectIsVisible(actor, 'p')} and ${canRead('read_pipeline', asking, 'p')})`;
};

const matchingJobs = (ctx: Context, filter: JobFilter) => {
  // Literals, so that bridges alone are found by their partial index.
  const kinds = (filter.kinds ?? (['build', 'bridge'] as const)).map((kind) => sql.lit(kind));
  let query = jobQuery(ctx).where(sql<boolean>`jobs.kind in (${sql.join(kinds)})`);
  const [only, ...others] = filter.statuses ?? [];
  // As a literal, a rare status is found by its partial index instead of by walking over all jobs.
  if (only !== undefined && others.length === 0) query = query.where(sql<boolean>`jobs.status = ${sql.lit(only)}`);
  else if (filter.statuses) query = query.where(sql<boolean>`jobs.status = any (${filter.statuses}::text[])`);
  if (filter.retried != null) query = query.where('jobs.retried', '=', filter.retried);
  if (filter.when) query = query.where(sql<boolean>`jobs.run_when = any (${filter.when}::text[])`);
  if (filter.with_artifacts) {
    query = query.where(sql<boolean>`exists (select from job_artifacts a where a.job_id = jobs.id)`);
  }
  if (filter.runner_types) {
    // An array, so that few runners are found once, and not for each job.
    query = query.where(sql<boolean>`jobs.runner_id = any (array(
      select r.id from runners r where r.runner_type = any (${filter.runner_types}::text[])))`);
  }
  return query;
};
