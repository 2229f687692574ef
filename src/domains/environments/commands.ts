import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { playJob } from '#domains/ci/commands.ts';
import { isComplete } from '#domains/ci/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import {
  badRequest,
  DomainError,
  forbidden,
  invalid,
  notFound,
  requireUnchanged,
  requireValid,
} from '#platform/errors.ts';
import { deploymentsByIds, getDeployment } from './deployments.ts';
import { deploymentDeleted, environmentDeleted } from './events.ts';
import {
  type DeploymentRow,
  type EnvironmentAttributes,
  type EnvironmentRow,
  isFinished,
  type NewEnvironment,
  problemsOf,
  type ReportedDeployment,
} from './model.ts';
import { getEnvironment, lockEnvironment } from './queries.ts';
import {
  changeEnvironment,
  emitDeployment,
  emitEnvironment,
  ensureEnvironment,
  insertDeployment,
  setDeploymentStatus,
} from './writing.ts';

/**
 * Creates an environment. The tier follows from the name if none is given.
 *
 * @throws DomainError as `requireAbility(admin_pipeline)`, `invalid` by attribute, also if the name is taken
 */
export const createEnvironment = async (
  ctx: Context,
  project: ProjectRow,
  given: NewEnvironment,
): Promise<EnvironmentRow> => {
  requireAbility(ctx, project, 'admin_pipeline');
  requireValid(problemsOf(given));
  return ctx.transaction(async (tx) => {
    const { row, isNew } = await ensureEnvironment(tx, project, given);
    if (!isNew) throw invalid({ name: ['has already been taken'] });
    return row;
  });
};

/** Changes the given attributes. @throws DomainError as `getEnvironment`, `requireAbility(admin_pipeline)`, `invalid` */
export const updateEnvironment = (
  ctx: Context,
  project: ProjectRow,
  id: number,
  given: EnvironmentAttributes,
): Promise<EnvironmentRow> =>
  withLocked(ctx, project, id, (tx, before) => {
    requireValid(problemsOf({ ...given, name: before.name }));
    return changeEnvironment(tx, project, before, { ...given, tier: given.tier ?? before.tier });
  });

/** Deletes an environment that is stopped, with its deployments. @throws as `updateEnvironment`, `forbidden`, `modified` */
export const deleteEnvironment = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  unchangedSince: Date | null = null,
): Promise<void> => {
  await withLocked(ctx, project, id, async (tx, row) => {
    if (row.state !== 'stopped') throw forbidden('Environment must be stopped first');
    requireUnchanged(row, unchangedSince);
    await tx.db.deleteFrom('environments').where('id', '=', id).execute();
    emitEnvironment(tx, project, environmentDeleted, row);
  });
};

/**
 * Stops an environment. If its last deployment names a job for that (`on_stop`), the job runs, and the environment is
 * `stopping` until the job has succeeded. If the job has failed, stopping again runs it again. Otherwise, and with
 * `force`, the environment is `stopped` at once.
 *
 * @throws DomainError as `getEnvironment`, `requireAbility(admin_pipeline)`, `forbidden` if the caller may not run that
 *   job
 */
export const stopEnvironment = (
  ctx: Context,
  project: ProjectRow,
  id: number,
  { force = false } = {},
): Promise<EnvironmentRow> =>
  withLocked(ctx, project, id, async (tx, before) => {
    if (before.state === 'stopped') return before;
    const isStopping = before.state === 'stopping';
    const job = force ? null : await stopJobOf(tx, before);
    if (job && isStopping && !isComplete(job) && job.status !== 'manual') return before;
    const hasEndedInVain = job?.status === 'failed' || job?.status === 'canceled';
    const isToRun = job && (job.status === 'manual' || (isStopping && hasEndedInVain));
    if (!isToRun) return changeEnvironment(tx, project, before, { state: 'stopped', auto_stop_at: null });
    const stopping = await changeEnvironment(tx, project, before, { state: 'stopping', auto_stop_at: null });
    await playJob(tx, project, job.id);
    return stopping;
  });

/** Returns the job that stops the environment: the one named by the last deployment, in its pipeline. */
const stopJobOf = async (
  tx: Tx,
  { last_deployment_id }: EnvironmentRow,
): Promise<{ readonly id: number; readonly status: string } | null> => {
  const { rows } = await sql<{ id: number; status: string }>`
    select stop.id, stop.status from deployments d join jobs started on started.id = d.job_id
      join jobs stop on stop.pipeline_id = started.pipeline_id and stop.name = d.on_stop and not stop.retried
    where d.id = ${last_deployment_id}`.execute(tx.db);
  return rows[0] ?? null;
};

/**
 * Stops the environments that nobody has changed or deployed to since `before`. Returns their number.
 *
 * @throws DomainError as `requireAbility(admin_pipeline)`, `forbidden` below Maintainer
 */
export const stopStaleEnvironments = async (ctx: Context, project: ProjectRow, before: string): Promise<number> => {
  requireAbility(ctx, project, 'admin_pipeline');
  if (project.access_level < MAINTAINER) throw forbidden();
  const { rows } = await sql<{ id: number }>`
    select e.id from environments e where e.project_id = ${project.id} and e.state = 'available'
      and e.updated_at < ${before}::timestamptz and not exists (
        select from deployments d where d.environment_id = e.id and d.updated_at >= ${before}::timestamptz)
    order by e.id`.execute(ctx.db);
  for (const { id } of rows) await stopEnvironment(ctx, project, id);
  return rows.length;
};

const withLocked = async <T>(
  ctx: Context,
  project: ProjectRow,
  id: number,
  change: (tx: Tx, row: EnvironmentRow) => Promise<T>,
): Promise<T> => {
  await getEnvironment(ctx, project, id);
  requireAbility(ctx, project, 'admin_pipeline');
  return ctx.transaction(async (tx) => {
    const row = await lockEnvironment(tx, id);
    if (!row) throw notFound('Environment');
    return change(tx, row);
  });
};

export interface DeploymentReport {
  readonly environment: string;
  readonly sha: string;
  readonly ref: string;
  readonly tag: boolean;
  readonly status: ReportedDeployment;
}

/**
 * Records a deployment that happened elsewhere. Its environment is created if there is none.
 *
 * @throws DomainError as `requireAbility(admin_pipeline)`, `invalid` by attribute
 */
export const createDeployment = async (
  ctx: Context,
  project: ProjectRow,
  { environment, sha, ref, tag, status }: DeploymentReport,
): Promise<DeploymentRow> => {
  requireAbility(ctx, project, 'admin_pipeline');
  requireValid(problemsOf({ name: environment }));
  const { git } = ctx.services;
  const problems: Record<string, string[]> = {};
  const commit = /^[0-9a-f]{40}$/.test(sha) ? await git.resolveCommit(project.disk_path, sha) : null;
  if (commit === null) problems.sha = ['is not a commit of the project'];
  if ((await git.resolve(project.disk_path, `refs/${tag ? 'tags' : 'heads'}/${ref}`)) === null)
    problems.ref = ['does not exist'];
  if (commit === null || problems.ref) throw invalid(problems);
  return ctx.transaction(async (tx) => {
    const { row } = await ensureEnvironment(tx, project, { name: environment });
    const locked = (await lockEnvironment(tx, row.id)) ?? row;
    if (status === 'success') await changeEnvironment(tx, project, locked, { state: 'available' });
    const { userId: user_id } = tx.actor;
    return insertDeployment(tx, project, locked, {
      ...{ ref, tag, sha: commit, status, user_id, job_id: null, on_stop: null },
    });
  });
};

/**
 * Changes the status of a deployment that was reported over the API and has not finished.
 *
 * @throws DomainError as `getDeployment`, `requireAbility(admin_pipeline)`, `forbidden` for deployments of jobs,
 *   `bad_request` if it has finished
 */
export const updateDeployment = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  status: ReportedDeployment,
): Promise<DeploymentRow> => {
  const { environment_id } = await getDeployment(ctx, project, id);
  requireAbility(ctx, project, 'admin_pipeline');
  return ctx.transaction(async (tx) => {
    const environment = await lockEnvironment(tx, environment_id);
    const before = (await deploymentsByIds(tx, [id])).get(id);
    if (!before || !environment) throw notFound('Deployment');
    if (before.job_id !== null) throw forbidden();
    if (before.status === status) return before;
    if (isFinished(before))
      throw new DomainError('bad_request', `Cannot transition status via :${status} from :${before.status}`);
    if (status === 'success') await changeEnvironment(tx, project, environment, { state: 'available' });
    return setDeploymentStatus(tx, project, before, status);
  });
};

/**
 * Deletes a deployment that is neither running nor the last one of its environment.
 *
 * @throws DomainError as `getDeployment`, `requireAbility(admin_pipeline)`, `bad_request`, `modified`
 */
export const deleteDeployment = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  unchangedSince: Date | null = null,
): Promise<void> => {
  const { environment_id } = await getDeployment(ctx, project, id);
  requireAbility(ctx, project, 'admin_pipeline');
  await ctx.transaction(async (tx) => {
    const environment = await lockEnvironment(tx, environment_id);
    const row = (await deploymentsByIds(tx, [id])).get(id);
    if (!row || !environment) throw notFound('Deployment');
    if (row.status === 'running') throw badRequest('Cannot destroy running deployment');
    if (environment.last_deployment_id === id) throw badRequest('Deployment currently deployed to environment');
    requireUnchanged(row, unchangedSince);
    await emitDeployment(tx, project, deploymentDeleted, row);
    await tx.db.deleteFrom('deployments').where('id', '=', id).execute();
  });
};
