import { sql } from 'kysely';
import { z } from 'zod';
import { listMergeRequests } from '#domains/merge-requests/lists.ts';
import type { MergeRequestRow } from '#domains/merge-requests/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { defineJob } from '#platform/jobs.ts';
import { deploymentsByIds, getDeployment } from './deployments.ts';
import type { DeploymentRow } from './model.ts';

/** The most commits of one deployment, newest first. Older ones are left out. */
const MAX_COMMITS = 10_000;

/**
 * Lists the merge requests that a deployment brought to its environment.
 *
 * @throws DomainError as `getDeployment`, `requireAbility(read_code)`
 */
export const listDeployedMergeRequests = async (
  ctx: Context,
  project: ProjectRow,
  deploymentId: number,
): Promise<List<MergeRequestRow>> => {
  const deployment = await getDeployment(ctx, project, deploymentId);
  requireAbility(ctx, project, 'read_code');
  const brought = await broughtBy(ctx, project, deployment);
  return listMergeRequests(ctx, project, { iids: brought.map(({ iid }) => iid), state: 'merged' });
};

/**
 * The job `environments.link_merge_requests` stores what a successful deployment brought, for lists of merge requests and
 * `first_deployed_to_production_at`.
 */
export const linkMergeRequests = defineJob({
  name: 'environments.link_merge_requests',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { id }) => {
    const deployment = (await deploymentsByIds(ctx, [id])).get(id);
    const project = deployment && (await findProject(ctx, { id: deployment.project_id }));
    if (!project || deployment.status !== 'success') return;
    const ids = (await broughtBy(ctx, project, deployment)).map((each) => each.id);
    // Some may have been deleted meanwhile.
    await ctx.transaction((tx) =>
      sql`insert into deployment_merge_requests (deployment_id, merge_request_id)
        select ${id}, mr.id from merge_requests mr where mr.id = any (${ids}::bigint[])
        on conflict do nothing`.execute(tx.db),
    );
  },
});

/**
 * Returns the merged merge requests whose commits the deployment has, and the successful deployment before it had not. The
 * first deployment of an environment brought all of its branch.
 */
const broughtBy = async (
  ctx: Context,
  project: ProjectRow,
  { id, sha, environment_id }: DeploymentRow,
): Promise<readonly { readonly id: number; readonly iid: number }[]> => {
  const before = await ctx.db
    .selectFrom('deployments')
    .select('sha')
    .where('environment_id', '=', environment_id)
    .where('id', '<', id)
    .where('status', '=', 'success')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  const { git } = ctx.services;
  const present = await git.readCommits(project.disk_path, before ? [sha, before.sha] : [sha]);
  const not = present.flatMap((commit) => (commit.id === sha ? [] : [commit.id]));
  const isThere = present.some((commit) => commit.id === sha);
  const commits = isThere
    ? await git.listCommits(project.disk_path, { from: sha, not, limit: MAX_COMMITS, messages: { each: 0, total: 0 } })
    : [];
  const shas = commits.map((commit) => commit.id);
  const { rows } = await sql<{ id: number; iid: number }>`
    select id, iid from merge_requests where project_id = ${project.id} and state = 'merged'
      and (merge_commit_sha = any (${shas}::text[]) or squash_commit_sha = any (${shas}::text[])
        or diff_head_sha = any (${shas}::text[]))`.execute(ctx.db);
  return rows;
};
