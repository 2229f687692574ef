import { sql } from 'kysely';
import { visibilityName } from '#domains/access/model.ts';
import { afterProjectsMoved } from '#domains/groups/moving.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import { getNamespace, type NamespaceRow } from '#domains/groups/queries.ts';
import { withinGroup } from '#domains/groups/shared-runners.ts';
import { lockNamespace, requireUnmarked } from '#domains/groups/tree.ts';
import type { Context } from '#platform/context.ts';
import { conflict, forbidden, invalid, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { differences, visibleChanges } from './changes.ts';
import { checkLimit, payloadOf, redirect } from './commands.ts';
import { projectTransferred } from './events.ts';
import { allowedVisibility, asTaken, checkFree } from './insert.ts';
import { lockProject } from './locks.ts';
import { type ProjectRow, projectScope } from './model.ts';
import { requireAbility } from './policy.ts';
import { getProject } from './queries.ts';

/**
 * Moves a project into another namespace: a group where the caller may create projects, or their own namespace.
 * Requires an owner of the project. The old path redirects to the project. If the group keeps its projects from the
 * runners of the instance, the project no longer uses them.
 *
 * @throws DomainError `not_found` (Namespace), `forbidden`, `invalid` if it is already there, if its name or path is
 *   taken, or if it is more visible than the group or the instance allows
 */
export const transferProject = async (ctx: Context, given: ProjectRow, target: IdOrPath): Promise<ProjectRow> => {
  requireAbility(ctx, given, 'transfer_project');
  const namespace = await getNamespace(ctx, target);
  requireTarget(ctx, namespace);
  return ctx.transaction(async (tx) => {
    // In order of id, as everywhere that two namespaces are locked.
    for (const id of [given.namespace_id, namespace.id].toSorted((a, b) => a - b)) await lockNamespace(tx, id);
    const place = await lockNamespace(tx, namespace.id);
    if (!place) throw notFound('Namespace');
    await requireUnmarked(tx, place);
    const before = await lockProject(tx, given.id);
    requireAbility(tx, before, 'transfer_project');
    requireTarget(tx, await getNamespace(tx, { id: namespace.id }));
    if (before.namespace_id !== given.namespace_id)
      throw conflict('The project was moved by another request; try again');
    if (before.namespace_id === place.id) throw invalid({ new_namespace: ['Project is already in this namespace.'] });
    await allowedVisibility(tx, place, visibilityName(before.visibility_level));
    await checkLimit(tx, namespace);
    const full_path = `${place.full_path}/${before.path}`;
    await checkFree(tx, { id: before.id, namespace_id: place.id, name: before.name, full_path });
    const shared_runners_enabled = withinGroup(place, before.shared_runners_enabled);
    await tx.db
      .updateTable('projects')
      .set({ namespace_id: place.id, full_path, shared_runners_enabled, updated_at: sql`now()` })
      .where('id', '=', before.id)
      .execute()
      .catch(asTaken);
    await redirect(tx, before, full_path);
    await afterProjectsMoved(tx, sql`select ${before.id}::bigint`);
    const after = await getProject(tx, { id: before.id });
    tx.emit(projectTransferred, {
      ...projectScope(after),
      subject: { type: 'Project', id: after.id },
      payload: {
        ...(await payloadOf(tx, after)),
        changes: visibleChanges(differences(before, { full_path, shared_runners_enabled }), before, after),
      },
    });
    return after;
  });
};

/** Requires a group where the caller may create projects, or their own namespace. @throws DomainError `forbidden` */
const requireTarget = (ctx: Pick<Context, 'actor'>, namespace: NamespaceRow): void => {
  if (namespace.kind === 'group') requireGroupAbility(ctx, namespace, 'create_projects');
  else if (namespace.owner_id !== ctx.actor.userId && !ctx.actor.isAdmin) throw forbidden();
};
