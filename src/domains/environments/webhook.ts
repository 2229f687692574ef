import { jobWebUrl } from '#domains/ci/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import { hookProject } from '#domains/projects/webhook.ts';
import { commitWebUrl } from '#domains/repositories/model.ts';
import { userWebUrl } from '#domains/users/model.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import type { DeploymentPayload } from './events.ts';

/** The body of deployment events (reference: webhooks §3); null if the project has been deleted. */
export const deploymentEventBody = async (
  ctx: Context,
  event: EventRow,
  deployment: DeploymentPayload,
): Promise<Record<string, unknown> | null> => {
  const project = await findProject(ctx, { id: deployment.project_id });
  if (!project) return null;
  const { sha, user_id, job_id } = deployment;
  const [users, [commit]] = await Promise.all([
    userSummariesByIds(ctx, [user_id]),
    ctx.services.git.readCommits(project.disk_path, [sha]),
  ]);
  const user = users.get(user_id ?? 0) ?? null;
  return {
    object_kind: 'deployment',
    status: deployment.status,
    status_changed_at: `${event.created_at.slice(0, 10)} ${event.created_at.slice(11, 19)} +0000`,
    deployment_id: deployment.id,
    deployable_id: job_id,
    deployable_url: job_id === null ? null : jobWebUrl(ctx, { id: job_id, project_path: project.full_path }),
    environment: deployment.environment,
    environment_tier: deployment.environment_tier,
    environment_slug: deployment.environment_slug,
    environment_external_url: deployment.environment_external_url,
    project: hookProject(ctx, project),
    short_sha: sha.slice(0, 8),
    user: user && hookUser(ctx, user),
    user_url: user && userWebUrl(ctx, user),
    commit_url: commitWebUrl(ctx, project, sha),
    commit_title: commit?.title ?? null,
    ref: deployment.ref,
  };
};
