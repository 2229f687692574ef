import { sql } from 'kysely';
import { type EventScopeColumns, eventScope, SCOPE_COLUMNS } from '#domains/ci/payloads.ts';
import { getJob } from '#domains/ci/queries.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { invalid, notFound } from '#platform/errors.ts';
import { deleteArtifacts } from './deleting.ts';
import { artifactsKept } from './events.ts';
import { expireProject } from './jobs.ts';
import { type ArtifactRow, findArtifact, projectOfJob } from './queries.ts';

/**
 * Keeps the artifacts of a job: they no longer expire.
 *
 * @throws DomainError as `getJob`, `requireAbility(admin_pipeline)`, `not_found` if the job has none
 */
export const keepArtifacts = async (ctx: Context, project: ProjectRow, jobId: number): Promise<void> => {
  const job = await getJob(ctx, project, jobId);
  requireAbility(ctx, project, 'admin_pipeline');
  await ctx.transaction(async (tx) => {
    const { rows } = await sql<EventScopeColumns & { kept: boolean }>`
      with kept as (
        update job_artifacts set expire_at = null where job_id = ${job.id} and expire_at is not null returning id
      )
      select p.id as project_id, ${SCOPE_COLUMNS}, exists (select 1 from kept) as kept
      from projects p join namespaces n on n.id = p.namespace_id
      where p.id = ${project.id} and exists (select 1 from job_artifacts where job_id = ${job.id})`.execute(tx.db);
    const [row] = rows;
    if (!row) throw notFound();
    if (!row.kept) return;
    const subject = { type: 'Ci::Build', id: job.id };
    tx.emit(artifactsKept, { ...eventScope(row), subject, payload: { job_id: job.id } });
  });
};

/**
 * Deletes the artifacts of a job. Returns how many. Its log stays.
 *
 * @throws DomainError as `getJob`, `requireAbility(destroy_artifacts)`
 */
export const deleteArtifactsOfJob = async (ctx: Context, project: ProjectRow, jobId: number): Promise<number> => {
  const job = await getJob(ctx, project, jobId);
  requireAbility(ctx, project, 'destroy_artifacts');
  return ctx.transaction(async (tx) => (await deleteArtifacts(tx, sql`job_id = ${job.id}`)).length);
};

/**
 * Deletes one artifact, and returns it.
 *
 * @throws DomainError as `projectOfJob`, `getJob` and `requireAbility(destroy_artifacts)`, `not_found`
 */
export const deleteArtifact = async (ctx: Context, id: number): Promise<ArtifactRow> => {
  const artifact = await findArtifact(ctx, id);
  if (!artifact) throw notFound();
  const project = await projectOfJob(ctx, artifact.job_id);
  await getJob(ctx, project, artifact.job_id);
  requireAbility(ctx, project, 'destroy_artifacts');
  const deleted = await ctx.transaction((tx) => deleteArtifacts(tx, sql`id = ${id}`));
  if (deleted.length === 0) throw notFound();
  return artifact;
};

/**
 * Lets all artifacts of a project expire now, in the background. Locked ones stay.
 *
 * @throws DomainError as `requireAbility(destroy_artifacts)`
 */
export const expireArtifactsOfProject = async (ctx: Context, project: ProjectRow): Promise<void> => {
  requireAbility(ctx, project, 'destroy_artifacts');
  await ctx.transaction(async (tx) =>
    tx.enqueue(expireProject, { project_id: project.id }, { key: `artifacts.expire_project:${project.id}` }),
  );
};

const MAX_IDS = 50;

/**
 * Deletes artifacts of a project by their ids. Returns the ids that were deleted.
 *
 * @throws DomainError as `requireAbility(destroy_artifacts)`, `invalid` for no ids or too many
 */
export const deleteArtifactsByIds = async (
  ctx: Context,
  project: ProjectRow,
  ids: readonly number[],
): Promise<number[]> => {
  requireAbility(ctx, project, 'destroy_artifacts');
  if (ids.length === 0) throw invalid({ base: ['IDs array of job artifacts can not be empty'] });
  if (ids.length > MAX_IDS) throw invalid({ base: [`The maximum number of job artifacts is ${MAX_IDS}`] });
  const condition = sql`project_id = ${project.id} and id = any (${[...ids]}::bigint[])`;
  return ctx.transaction(async (tx) => (await deleteArtifacts(tx, condition)).map(({ id }) => id));
};
