import { findAliasedProject } from '#domains/aliases/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, type ProjectAbility } from '#domains/projects/policy.ts';
import { findMovedProject, findProject } from '#domains/projects/queries.ts';
import { JOB_TOKEN_SCOPE } from '#platform/caller/token-scopes.ts';
import type { Actor, Context } from '#platform/context.ts';
import { forbidden, insufficientScope, notFound, unauthenticated } from '#platform/errors.ts';
import type { Service } from '#platform/git/http.ts';
import { onlyBranches } from './collaboration.ts';

// The rights to clone, fetch and push over git.

/**
 * Returns the project if the caller may use the service, or its new path if it has moved. Anonymous callers must
 * authenticate before they learn whether the project exists.
 */
export const findRepository = async (
  ctx: Context,
  path: string,
  service: Service,
): Promise<{ readonly project: ProjectRow } | { readonly movedTo: string }> => {
  const isAnonymous = ctx.actor.userId === null;
  // A project path always contains its namespace, so a single segment can only be an alias.
  const isAlias = !path.includes('/');
  const project = isAlias ? await findAliasedProject(ctx, path) : await findProject(ctx, { path });
  if (!project) {
    const movedId = isAlias ? null : await findMovedProject(ctx, path);
    const moved = movedId === null ? null : await findProject(ctx, { id: movedId });
    if (moved) return { movedTo: moved.full_path };
    throw isAnonymous ? unauthenticated() : notFound('Project');
  }
  requireScope(ctx.actor, service);
  if (service === 'git-receive-pack' && !mayJobPush(ctx, project)) {
    throw forbidden('job tokens may not push to this project');
  }
  const ability: ProjectAbility = service === 'git-upload-pack' ? 'read_code' : 'push_code';
  if (can(ctx, project, ability)) return { project };
  if (service === 'git-receive-pack' && (await onlyBranches(ctx, project))?.size !== 0) return { project };
  if (isAnonymous) throw unauthenticated();
  if (service === 'git-upload-pack') throw forbidden('you are not allowed to download code from this project');
  if (project.archived) throw forbidden('this project is archived and cannot be pushed to');
  if (project.marked_for_deletion_on !== null) {
    throw forbidden('this project is marked for deletion and cannot be pushed to');
  }
  throw can(ctx, project, 'read_project')
    ? forbidden('you are not allowed to push code to this project')
    : notFound('Project');
};

const READ_SCOPES = ['read_repository', 'write_repository', 'api', JOB_TOKEN_SCOPE];
const WRITE_SCOPES = ['write_repository', 'api', JOB_TOKEN_SCOPE];

/** A job may push only to its own project, and only if the project allows it (reference: ci §7). */
export const mayJobPush = ({ actor: { job } }: Context, project: ProjectRow): boolean =>
  job === undefined || (job.projectId === project.id && project.ci_push_repository_for_job_token_allowed);

const requireScope = ({ scopes }: Actor, service: Service): void => {
  const accepted = service === 'git-upload-pack' ? READ_SCOPES : WRITE_SCOPES;
  if (scopes !== null && !accepted.some((scope) => scopes.has(scope))) throw insufficientScope(accepted);
};
