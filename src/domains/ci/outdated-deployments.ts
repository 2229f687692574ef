import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/**
 * Returns which of the jobs would replace a newer deployment, in projects with `ci_forward_deployment_enabled`: a job of
 * a newer pipeline has deployed another commit to the same environment. With `ci_forward_deployment_rollback_allowed`,
 * people may run an old job again; if that job is then retried automatically, it is still their rollback. Environments
 * are a domain above this one.
 */
export const outdatedDeployments = async (
  { db }: Pick<Context, 'db'>,
  jobIds: readonly number[],
): Promise<ReadonlySet<number>> => {
  if (jobIds.length === 0) return new Set();
  const { rows } = await sql<{ id: number }>`
    select j.id from jobs j join pipelines p on p.id = j.pipeline_id join projects r on r.id = j.project_id
      join environments e on e.project_id = j.project_id and e.name = j.environment
      cross join lateral (
        select d.sha, deployer.pipeline_id from deployments d left join jobs deployer on deployer.id = d.job_id
        where d.environment_id = e.id and d.status = 'success' order by d.id desc limit 1) last
    where j.id = any (${jobIds}::bigint[]) and r.ci_forward_deployment_enabled
      and j.options -> 'environment' ->> 'action' = 'start'
      and last.pipeline_id > j.pipeline_id and last.sha <> p.sha
      and not (r.ci_forward_deployment_rollback_allowed
        and (j.retried_by_user or j.status in ('success', 'failed', 'canceled')))`.execute(db);
  return new Set(rows.map(({ id }) => id));
};
