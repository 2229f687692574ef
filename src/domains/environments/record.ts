import { z } from 'zod';
import { jobsByIds } from '#domains/ci/queries.ts';
import { jobRecord, toJobs } from '#domains/ci/record.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { deploymentsByIds } from './deployments.ts';
import type { DeploymentRow, EnvironmentRow } from './model.ts';
import { environmentsByIds } from './queries.ts';

export const environmentRecord = z
  .object({
    id: z.int(),
    name: z.string(),
    slug: z.string(),
    description: z.string().nullable(),
    external_url: z.string().nullable(),
    state: z.string(),
    tier: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    auto_stop_at: z.string().nullable(),
  })
  .meta({ id: 'Environment' });

export const deploymentRecord = z
  .object({
    id: z.int(),
    iid: z.int(),
    ref: z.string(),
    sha: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    status: z.string(),
    user: userBasicRecord.nullable(),
    environment: environmentRecord,
    deployable: jobRecord.nullable().describe('The job that deployed. Null if it was reported over the API.'),
  })
  .meta({ id: 'Deployment' });

export const environmentDetailsRecord = environmentRecord
  .extend({ last_deployment: deploymentRecord.nullable().describe('The last successful one.') })
  .meta({ id: 'EnvironmentDetails' });

export const toEnvironment = (row: EnvironmentRow): z.output<typeof environmentRecord> => ({
  id: row.id,
  name: row.name,
  slug: row.slug,
  description: row.description,
  external_url: row.external_url,
  state: row.state,
  tier: row.tier,
  created_at: isoTime(row.created_at),
  updated_at: isoTime(row.updated_at),
  auto_stop_at: isoTime(row.auto_stop_at),
});

export const toEnvironmentDetails = async (
  ctx: Context,
  project: ProjectRow,
  row: EnvironmentRow,
): Promise<z.output<typeof environmentDetailsRecord>> => {
  const last = await deploymentsByIds(ctx, row.last_deployment_id === null ? [] : [row.last_deployment_id]);
  const [last_deployment = null] = await toDeployments(ctx, project, [...last.values()]);
  return { ...toEnvironment(row), last_deployment };
};

/** Returns the records of deployments of one project, with all related data read at once. */
export const toDeployments = async (
  ctx: Context,
  project: ProjectRow,
  rows: readonly DeploymentRow[],
): Promise<z.output<typeof deploymentRecord>[]> => {
  const distinct = (ids: readonly (number | null)[]) => [...new Set(ids.flatMap((id) => id ?? []))];
  const [users, environments, jobs] = await Promise.all([
    userBasicsByIds(
      ctx,
      rows.map(({ user_id }) => user_id),
    ),
    environmentsByIds(ctx, distinct(rows.map(({ environment_id }) => environment_id))),
    jobsByIds(ctx, distinct(rows.map(({ job_id }) => job_id))),
  ]);
  const deployables = new Map((await toJobs(ctx, project, [...jobs.values()])).map((job) => [job.id, job]));
  return rows.flatMap((row) => {
    const environment = environments.get(row.environment_id);
    // Without an environment, the deployment has been deleted.
    if (!environment) return [];
    return {
      id: row.id,
      iid: row.iid,
      ref: row.ref,
      sha: row.sha,
      created_at: isoTime(row.created_at),
      updated_at: isoTime(row.updated_at),
      status: row.status,
      user: users.get(row.user_id) ?? null,
      environment: toEnvironment(environment),
      deployable: deployables.get(row.job_id ?? 0) ?? null,
    };
  });
};
