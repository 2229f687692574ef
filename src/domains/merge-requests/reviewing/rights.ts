import { DEVELOPER, MAINTAINER, NO_ACCESS, OWNER } from '#domains/access/model.ts';
import { usersByGroupLevel, usersByProjectLevel } from '#domains/access/queries.ts';
import { isGranted, matching, protectionsByProjects } from '#domains/repositories/protections.ts';
import { anonymous, type Context } from '#platform/context.ts';

/**
 * Returns the reviewers of merge requests who may merge them, by merge request: Developers whom the protection of the
 * target branch allows it. The caller must be able to read the merge requests.
 */
export const reviewersWhoMayMerge = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ReadonlySet<number>>> => {
  const rows = await ctx.db
    .selectFrom('merge_request_reviewers as r')
    .innerJoin('merge_requests as mr', 'mr.id', 'r.merge_request_id')
    .innerJoin('projects as p', 'p.id', 'mr.project_id')
    .innerJoin('users as u', 'u.id', 'r.user_id')
    .select(['mr.id', 'mr.project_id', 'mr.target_branch', 'r.user_id', 'u.is_admin'])
    .where('mr.id', 'in', ids)
    .where('p.archived', '=', false)
    .where('p.marked_for_deletion_on', 'is', null)
    .execute();
  const asked = [...Map.groupBy(rows, (row) => row.project_id)].map(([projectId, of]) => ({
    projectId,
    userIds: [...new Set(of.map((row) => row.user_id))],
  }));
  const protections = await protectionsByProjects(
    ctx,
    asked.map(({ projectId }) => projectId),
  );
  const groupIds = [...protections.values()].flatMap(({ branches }) =>
    branches.flatMap(({ levels }) => levels.flatMap(({ group_id }) => group_id ?? [])),
  );
  const userIds = [...new Set(rows.map((row) => row.user_id))];
  const [developers, maintainers, groups] = await Promise.all([
    usersByProjectLevel(ctx, asked, DEVELOPER),
    usersByProjectLevel(ctx, asked, MAINTAINER),
    usersByGroupLevel(ctx, [...new Set(groupIds)], userIds, DEVELOPER),
  ]);
  const found = new Map<number, Set<number>>();
  for (const { id, project_id, target_branch, user_id, is_admin } of rows) {
    const holds = (level: ReadonlyMap<number, ReadonlySet<number>>) => level.get(project_id)?.has(user_id) ?? false;
    const role = is_admin ? OWNER : holds(maintainers) ? MAINTAINER : holds(developers) ? DEVELOPER : NO_ACCESS;
    if (role === NO_ACCESS) continue;
    const rules = matching(protections.get(project_id)?.branches ?? [], target_branch);
    const reviewer = { actor: { ...anonymous, userId: user_id, isAdmin: is_admin } };
    const theirs = new Set([...groups].flatMap(([groupId, users]) => (users.has(user_id) ? [groupId] : [])));
    const allowed = (['merge', 'push'] as const).some((action) => isGranted(reviewer, role, rules, action, theirs));
    if (rules.length === 0 || allowed) found.set(id, (found.get(id) ?? new Set()).add(user_id));
  }
  return found;
};
