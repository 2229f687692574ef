import { sql } from 'kysely';
import { type JobPayload, jobCreated, jobUpdated } from '#domains/ci/events.ts';
import { jobOptions } from '#domains/ci/options.ts';
import type { JobEnvironment } from '#domains/ci-config/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Tx } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { addressOf } from './address.ts';
import { deploymentsByIds } from './deployments.ts';
import { type DeploymentStatus, type EnvironmentRow, problemsOf, tierOf } from './model.ts';
import { lockEnvironment } from './queries.ts';
import { changeEnvironment, ensureEnvironment, insertDeployment, setDeploymentStatus } from './writing.ts';

/** Makes environments and deployments of jobs that name an environment, and follows their status. */
export const followDeployments = defineFollower({
  name: 'environments.deployments',
  wants: ({ kind }) => kind === jobUpdated.kind || kind === jobCreated.kind,
  handle: async (tx, events) => {
    for (const { payload } of events) {
      if (typeof payload !== 'object' || payload === null || !('environment' in payload)) continue;
      if (payload.environment !== null) await followJob(tx, jobUpdated.payload.parse(payload));
    }
  },
});

/** The facts about a job when its event is handled. Its status may be ahead of the event. */
interface DeployingJob {
  readonly id: number;
  readonly project_id: number;
  readonly pipeline_id: number;
  readonly options: unknown;
  readonly sha: string | null;
  readonly pipeline_ref: string | null;
}

const followJob = async (tx: Tx, payload: JobPayload): Promise<void> => {
  const { rows } = await sql<DeployingJob>`
    select jobs.id, jobs.project_id, jobs.pipeline_id, jobs.options, pipelines.sha, pipelines.ref as pipeline_ref
    from jobs join pipelines on pipelines.id = jobs.pipeline_id
    where jobs.id = ${payload.id}`.execute(tx.db);
  const [job] = rows;
  const options = job && jobOptions(job);
  const settings = options?.environment;
  const project = job && (await findProject(tx, { id: job.project_id }));
  if (!job || !options || !settings || !project || payload.environment === null) return;
  const { environment: name, status } = payload;
  if (Object.keys(problemsOf({ name })).length > 0) {
    tx.log.info({ job: job.id }, 'the name of an environment is not allowed, so the job deploys to none');
    return;
  }
  const tier = tierOf(settings.deployment_tier);
  const made = await ensureEnvironment(tx, project, { name, tier });
  const environment = await lockEnvironment(tx, made.row.id);
  if (!environment) return;
  const succeeded = status === 'success';
  if (settings.action === 'start') {
    // First the environment, because the event of the deployment has its address and its tier.
    const { id, pipeline_id } = job;
    const current = succeeded
      ? await deployed(tx, project, environment, settings, { id, pipeline_id, options })
      : environment;
    await followDeployment(tx, project, current, job, settings, payload);
  } else if (succeeded && settings.action === 'stop')
    await changeEnvironment(tx, project, environment, { state: 'stopped', auto_stop_at: null });
  else if (succeeded && settings.action !== 'verify') await keepUntil(tx, project, environment, settings);
};

/** The status of a deployment by that of its job. A job that waits to be started has none. */
const STATUSES: Readonly<Record<string, DeploymentStatus>> = {
  waiting_for_resource: 'created',
  preparing: 'created',
  waiting_for_callback: 'created',
  pending: 'created',
  running: 'running',
  canceling: 'running',
  success: 'success',
  failed: 'failed',
  canceled: 'canceled',
  skipped: 'skipped',
};

const followDeployment = async (
  tx: Tx,
  project: ProjectRow,
  environment: EnvironmentRow,
  job: DeployingJob,
  { on_stop }: JobEnvironment,
  { status, ref, tag, user_id }: JobPayload,
): Promise<void> => {
  const wanted = STATUSES[status];
  if (wanted === undefined) return;
  const known = await tx.db.selectFrom('deployments').select('id').where('job_id', '=', job.id).executeTakeFirst();
  const before = known && (await deploymentsByIds(tx, [known.id])).get(known.id);
  if (before) {
    await setDeploymentStatus(tx, project, before, wanted);
    return;
  }
  // A job that never started deployed nothing.
  if (wanted === 'skipped' || wanted === 'canceled' || job.sha === null) return;
  await insertDeployment(tx, project, environment, {
    ...{ tag, sha: job.sha, status: wanted, user_id, job_id: job.id, on_stop },
    ref: ref ?? job.pipeline_ref ?? project.default_branch ?? '',
  });
};

const deployed = async (
  tx: Tx,
  project: ProjectRow,
  environment: EnvironmentRow,
  settings: JobEnvironment,
  job: Parameters<typeof addressOf>[4],
): Promise<EnvironmentRow> => {
  const url = settings.url === null ? null : await addressOf(tx, project, environment, settings.url, job);
  return changeEnvironment(tx, project, environment, {
    state: 'available',
    tier: tierOf(settings.deployment_tier) ?? environment.tier,
    ...(url === null ? {} : { external_url: url }),
    auto_stop_at: autoStopAt(tx, settings),
  });
};

const keepUntil = async (
  tx: Tx,
  project: ProjectRow,
  environment: EnvironmentRow,
  settings: JobEnvironment,
): Promise<void> => {
  if (settings.auto_stop_in !== null)
    await changeEnvironment(tx, project, environment, { auto_stop_at: autoStopAt(tx, settings) });
};

const autoStopAt = (tx: Tx, { auto_stop_in }: JobEnvironment): string | null =>
  auto_stop_in === null ? null : new Date(tx.clock.now().getTime() + auto_stop_in * 1_000).toISOString();
