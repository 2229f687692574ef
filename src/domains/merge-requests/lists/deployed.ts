import { type RawBuilder, sql } from 'kysely';
import { REPORTER } from '#domains/access/model.ts';
import { projectIsMine } from '#domains/access/policy.ts';
import type { Actor, Context } from '#platform/context.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';

// The deployments that brought a merge request to an environment. The environments domain stores them.

/** Conditions on one successful deployment. */
export interface DeployedFilter {
  /** The name of its environment. */
  readonly environment?: string | null | undefined;
  readonly deployed_after?: string | null | undefined;
  readonly deployed_before?: string | null | undefined;
}

/** Selects the links `held` of merge requests to the deployments that fit. Null without a condition. */
export const deploymentsOf = ({
  environment,
  deployed_after: after,
  deployed_before: before,
}: DeployedFilter): RawBuilder<unknown> | null => {
  if (!environment && !after && !before) return null;
  const conditions = [
    ...(environment ? [sql`e.name = ${environment}`] : []),
    ...(after ? [atOrAfter(sql.ref('d.finished_at'), after)] : []),
    ...(before ? [atOrBefore(sql.ref('d.finished_at'), before)] : []),
  ];
  return sql`deployment_merge_requests held join deployments d on d.id = held.deployment_id
    join environments e on e.id = d.environment_id
    where d.status = 'success' and ${sql.join(conditions, sql` and `)}`;
};

/** Requires such a deployment of the row `merge_requests`, and that the actor may read deployments (`read_pipeline`). */
export const wasDeployed = (actor: Actor, deployments: RawBuilder<unknown>): RawBuilder<boolean> => {
  const isOpen = sql`(projects.builds_access_level = 'enabled' and projects.public_jobs)`;
  const isReader = actor.userId === null ? isOpen : sql`(${isOpen} or ${projectIsMine(actor, REPORTER)})`;
  return sql<boolean>`(exists (select 1 from ${deployments} and held.merge_request_id = merge_requests.id)
    and exists (select 1 from projects where projects.id = merge_requests.project_id
      and projects.builds_access_level <> 'disabled' and ${actor.isAdmin ? sql`true` : isReader}))`;
};

/** Returns when the merge request first reached a production environment; null if it has not. */
export const firstDeployedToProduction = async ({ db }: Pick<Context, 'db'>, id: number): Promise<string | null> => {
  const { rows } = await sql<{ finished_at: string | null }>`
    select min(d.finished_at) as finished_at from deployment_merge_requests l
    join deployments d on d.id = l.deployment_id join environments e on e.id = d.environment_id
    where l.merge_request_id = ${id} and d.status = 'success' and e.tier = 'production'`.execute(db);
  return rows[0]?.finished_at ?? null;
};
