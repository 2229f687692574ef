import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { requireMoreThanAudit } from '#domains/groups/policy.ts';
import { type GroupRow, getGroup } from '#domains/groups/queries.ts';
import { checkShare, isSharingLocked, type NewShare } from '#domains/groups/shares.ts';
import { lockProject } from '#domains/projects/locks.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, forbidden, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { projectShared, projectUnshared } from './events.ts';
import { projectSource } from './model.ts';
import { requireLevel } from './policy.ts';

export interface ProjectShareRow {
  readonly id: number;
  readonly project_id: number;
  readonly group_id: number;
  readonly group_access: number;
  readonly expires_at: string | null;
}

/**
 * Shares a project with the members of a group, up to the given level and at most the caller's own.
 *
 * @throws DomainError `forbidden`, `not_found` (Group), `conflict` if they are already shared
 */
export const shareProject = async (
  ctx: Context,
  given: ProjectRow,
  groupId: IdOrPath,
  share: NewShare,
): Promise<ProjectShareRow> => {
  requireAbility(ctx, given, 'admin_share');
  checkShare(ctx, share);
  requireLevel(ctx, projectSource(given), share.group_access);
  const group = await getGroup(ctx, groupId);
  requireMoreThanAudit(ctx, group);
  const { group_access, expires_at = null } = share;
  return ctx.transaction(async (tx) => {
    const project = await lockShared(tx, given);
    requireLevel(tx, projectSource(project), group_access);
    if (await isSharingLocked(tx, project.namespace.traversal_ids)) {
      throw forbidden('Sharing projects of this group is locked');
    }
    const row = await tx.db
      .insertInto('project_shares')
      .values({ project_id: project.id, shared_with_id: group.id, access_level: group_access, expires_at })
      .onConflict((on) => on.doNothing())
      .returning('id')
      .executeTakeFirst();
    if (!row) throw conflict('The project is already shared with this group');
    emitShare(tx, projectShared, project, { id: row.id, group, access_level: group_access, expires_at });
    return { id: row.id, project_id: project.id, group_id: group.id, group_access, expires_at };
  });
};

/** Locks the project and returns its current row: the caller may have lost their role since it was read. */
const lockShared = async (tx: Tx, { id }: ProjectRow): Promise<ProjectRow> => {
  const project = await lockProject(tx, id);
  requireAbility(tx, project, 'admin_share');
  return project;
};

/** Ends the sharing. @throws DomainError `forbidden`, `not_found` */
export const unshareProject = async (ctx: Context, given: ProjectRow, groupId: IdOrPath): Promise<void> => {
  requireAbility(ctx, given, 'admin_share');
  await ctx.transaction(async (tx) => {
    const project = await lockShared(tx, given);
    const removed = await tx.db
      .deleteFrom('project_shares')
      .using('namespaces')
      .where('project_shares.project_id', '=', project.id)
      .whereRef('project_shares.shared_with_id', '=', 'namespaces.id')
      .where(
        groupId.path === undefined
          ? sql<boolean>`namespaces.id = ${groupId.id}`
          : sql<boolean>`lower(namespaces.full_path) = lower(${groupId.path})`,
      )
      .returning([
        'project_shares.id',
        'namespaces.id as group_id',
        'namespaces.full_path',
        'access_level',
        'expires_at',
      ])
      .executeTakeFirst();
    if (!removed) throw notFound();
    const { group_id, full_path, ...share } = removed;
    emitShare(tx, projectUnshared, project, { ...share, group: { id: group_id, full_path } });
  });
};

interface Share {
  readonly id: number;
  readonly group: Pick<GroupRow, 'id' | 'full_path'>;
  readonly access_level: number;
  readonly expires_at: string | null;
}

const emitShare = (
  tx: Tx,
  definition: typeof projectShared,
  project: ProjectRow,
  { id, group, access_level, expires_at }: Share,
): void =>
  tx.emit(definition, {
    ...projectScope(project),
    // The group may be visible to few.
    min_access_level: MAINTAINER,
    subject: { type: 'Project', id: project.id },
    payload: {
      id,
      access_level,
      expires_at,
      project: { id: project.id, full_path: project.full_path },
      shared_with: { id: group.id, full_path: group.full_path },
    },
  });
