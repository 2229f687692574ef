import { getGroup } from '#domains/groups/queries.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, unauthenticated } from '#platform/errors.ts';
import type { LiveFilter } from '#platform/event-log/read.ts';

interface EventScope {
  readonly projectPath?: string | number | null | undefined;
  readonly groupPath?: string | number | null | undefined;
}

/**
 * Returns the filter for the events of a project, of a group with everything below it, or of everything that the caller
 * may see.
 *
 * @throws DomainError `not_found`, `bad_request` for both, `unauthenticated` for anonymous callers without a scope
 */
export const scopeFilter = async (
  ctx: Context,
  { projectPath, groupPath }: EventScope,
): Promise<Pick<LiveFilter, 'project_id' | 'namespace_id'>> => {
  if (projectPath && groupPath) throw badRequest('give projectPath or groupPath, not both');
  if (projectPath) return { project_id: (await getProject(ctx, { path: String(projectPath) })).id };
  if (groupPath) return { namespace_id: (await getGroup(ctx, { path: String(groupPath) })).id };
  if (ctx.actor.userId === null) throw unauthenticated();
  return {};
};
