import { sql } from 'kysely';
import { recordErasure } from '#domains/ci/erasure.ts';
import { isComplete } from '#domains/ci/model.ts';
import { eventScope } from '#domains/ci/payloads.ts';
import { lockPipelineOf } from '#domains/ci/processing.ts';
import { getJob } from '#domains/ci/queries.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { eraseTrace } from '#domains/traces/commands.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, notFound } from '#platform/errors.ts';
import { deleteArtifacts } from './deleting.ts';
import { jobErased } from './events.ts';

/**
 * Erases what a job that ended has left: its log, its artifacts, and the variables of its dotenv report. For
 * maintainers, and for developers who started the job.
 *
 * @throws DomainError as `getJob`; `forbidden` if the caller may not, if the job has not ended, or if nothing is left
 */
export const eraseJob = async (ctx: Context, project: ProjectRow, jobId: number): Promise<void> => {
  const { user_id } = await getJob(ctx, project, jobId);
  const isOwn = user_id !== null && user_id === ctx.actor.userId && can(ctx, project, 'admin_pipeline');
  if (!isOwn) requireAbility(ctx, project, 'destroy_artifacts');
  await ctx.transaction(async (tx) => {
    const pipeline = await lockPipelineOf(tx, jobId);
    if (!pipeline) throw notFound();
    const { status } = await getJob(tx, project, jobId);
    const artifacts = isComplete({ status }) ? await deleteArtifacts(tx, sql`job_id = ${jobId}`) : [];
    const hadTrace = isComplete({ status }) && (await eraseTrace(tx, jobId));
    if (artifacts.length === 0 && !hadTrace) throw forbidden('Job is not erasable!');
    await recordErasure(tx, jobId);
    const subject = { type: 'Ci::Build', id: jobId };
    tx.emit(jobErased, { ...eventScope(pipeline), subject, payload: { job_id: jobId } });
  });
};
