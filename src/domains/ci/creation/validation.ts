import { sql } from 'kysely';
import type { CompiledJob } from '#domains/ci-config/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { outboundPolicy } from '#domains/settings/outbound.ts';
import { getSecretSetting, getSettings } from '#domains/settings/queries.ts';
import { usersByIds } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import type { PipelinePlan } from './insert.ts';

const DEFAULT_TIMEOUT_SECONDS = 5;
const MAX_RESPONSE_BYTES = 8 * 1024;
const ACCEPTED = 200;
const REJECTED = 406;

/**
 * Asks the service of `external_pipeline_validation_service_url` about a pipeline with jobs, if one is set. Returns false
 * only if it answers 406. A broken service must not stop all pipelines: other answers and failures accept the pipeline,
 * and are logged. Call it outside of transactions, because it waits for the service.
 *
 * @throws OutboundError if the caller is aborted. The pipeline was not validated then.
 */
export const passesValidation = async (ctx: Context, project: ProjectRow, plan: PipelinePlan): Promise<boolean> => {
  const settings = await getSettings(ctx);
  const { external_pipeline_validation_service_url: url } = settings;
  if (url === '' || plan.jobs.length === 0) return true;
  const token = await getSecretSetting(ctx, 'external_pipeline_validation_service_token');
  const timeout = settings.external_pipeline_validation_service_timeout ?? DEFAULT_TIMEOUT_SECONDS;
  const body = JSON.stringify(await describe(ctx, project, plan));
  try {
    const { status } = await ctx.services.http.request({
      url,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token === null ? {} : { 'x-gitlab-token': token }) },
      body,
      policy: await outboundPolicy(ctx),
      timeoutMs: timeout * 1_000,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      signal: ctx.signal,
    });
    if (status !== ACCEPTED && status !== REJECTED)
      ctx.log.warn({ status, project_id: project.id }, 'the pipeline validation service gave an unknown answer');
    return status !== REJECTED;
  } catch (error) {
    if (ctx.signal.aborted) throw error;
    ctx.log.warn({ err: error, project_id: project.id }, 'the pipeline validation service did not answer');
    return true;
  }
};

/** The names are those that existing validation services read. */
const describe = async (ctx: Context, project: ProjectRow, { row, jobs }: PipelinePlan) => {
  const { userId } = ctx.actor;
  const user = userId === null ? undefined : (await usersByIds(ctx, [userId])).get(userId);
  return {
    project: {
      id: project.id,
      path: project.full_path,
      created_at: project.created_at,
      shared_runners_enabled: project.shared_runners_enabled,
      group_runners_enabled: project.group_runners_enabled,
    },
    user: user ? { id: user.id, username: user.username, email: user.email, created_at: user.created_at } : null,
    pipeline: { sha: row.sha, ref: row.ref, type: row.source },
    builds: jobs.map(({ job }) => describeJob(job)),
    total_builds_count: userId === null ? 0 : await countUnfinishedJobs(ctx, userId),
  };
};

const describeJob = ({ name, stage, image, services, tags, script, after_script }: CompiledJob) => ({
  name,
  stage,
  image: image?.name ?? null,
  services: services.map((service) => service.name),
  tag_list: tags,
  script: [...script, ...after_script],
});

/** Counts the jobs in the unfinished pipelines of a user. */
const countUnfinishedJobs = async ({ db }: Context, userId: number): Promise<number> => {
  // The condition on the status is that of the index `pipelines_alive`, so that finished pipelines are not read.
  const { rows } = await sql<{ count: number }>`
    select count(*) as count
    from pipelines
    join jobs on jobs.pipeline_id = pipelines.id
    where pipelines.user_id = ${userId}
      and pipelines.status in ('created', 'waiting_for_resource', 'preparing', 'waiting_for_callback', 'pending',
        'running', 'scheduled')`.execute(db);
  return rows[0]?.count ?? 0;
};
