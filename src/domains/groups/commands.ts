import { sql } from 'kysely';
import { refreshAccess } from '#domains/access/commands.ts';
import { OWNER, visibilityLevel, visibilityName, wasAsOpen } from '#domains/access/model.ts';
import { projectIsVisible } from '#domains/access/policy.ts';
import { forgetRestrictions, reloadRestrictions } from '#domains/access/restrictions.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Settings } from '#domains/settings/registry.ts';
import { removeAvatar, storeAvatar } from '#domains/users/avatar.ts';
import { moveServiceAccounts } from '#domains/users/bots.ts';
import { createsGroups } from '#domains/users/model.ts';
import { getUser } from '#domains/users/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { conflict, forbidden, invalid, notFound, requireValid, unauthenticated } from '#platform/errors.ts';
import { withoutPrevious } from '#platform/events.ts';
import type { SentFile } from '#platform/files/picture.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import {
  attributeErrors,
  attributeNames,
  columnsOf,
  type GroupAttributes,
  mergedProtection,
  protectionOf,
} from './attributes.ts';
import { groupCreated, groupUpdated } from './events.ts';
import { lockPlaceFor } from './locks.ts';
import { DEFAULT_PROJECT_CREATION } from './model.ts';
import { afterProjectsMoved } from './moving.ts';
import { networkErrors } from './networks.ts';
import { groupPayload, groupScope } from './payload.ts';
import { requireGroupAbility } from './policy.ts';
import { type GroupRow, getGroup } from './queries.ts';
import { requireAllowedBelow, spreadSetting, tightenBelow } from './shared-runners.ts';
import {
  dropRedirects,
  inheritMarks,
  isPathTaken,
  lockNamespace,
  lockTree,
  relocateTree,
  requireUnmarked,
  type TreePosition,
} from './tree.ts';
import { aboveParent, checkVisibility, highestUnrestricted, levelsIn, requireUnrestricted } from './visibility.ts';

interface Picture {
  /** Null removes the avatar. */
  readonly avatar?: SentFile | null | undefined;
}

export type GroupChanges = GroupAttributes & Picture;

export interface NewGroup extends GroupAttributes, Picture {
  readonly name: string;
  readonly path: string;
  /** Absent for a top-level group. */
  readonly parent?: IdOrPath | null | undefined;
}

const TAKEN = ['has already been taken'];

/**
 * Creates a group, with the caller as its first Owner.
 *
 * @throws DomainError `not_found` for the parent, `forbidden`, `invalid` by attribute
 */
export const createGroup = async (ctx: Context, input: NewGroup): Promise<GroupRow> => {
  const { parent: parentName, avatar, ...attributes } = input;
  const { userId } = ctx.actor;
  if (userId === null && !ctx.actor.isSystem) throw unauthenticated();
  const parent = parentName ? await getGroup(ctx, parentName) : null;
  if (parent) requireGroupAbility(ctx, parent, 'create_subgroup');
  else await requireTopLevel(ctx);
  const errors = attributeErrors(attributes, { topLevel: parent === null });
  requireValid(errors);
  const settings = await getSettings(ctx);
  requireProtectionRight(ctx, settings, attributes);
  if (attributes.visibility) await requireUnrestricted(ctx, visibilityLevel(attributes.visibility));
  const avatar_key = avatar ? await storeAvatar(ctx, avatar) : null;

  return reportTaken(() =>
    ctx.transaction(async (tx) => {
      const place = parent ? await lockPlaceFor(tx, parent, 'create_subgroup') : null;
      if (place) await requireUnmarked(tx, place);
      const least = place?.visibility_level ?? Number.POSITIVE_INFINITY;
      const level = attributes.visibility
        ? visibilityLevel(attributes.visibility)
        : await highestUnrestricted(tx, Math.min(visibilityLevel(settings.default_group_visibility), least));
      if (level > least) throw aboveParent(level, least);
      requireAllowedBelow(place, attributes.shared_runners_setting);
      const { name, path } = attributes;
      const full_path = place ? `${place.full_path}/${path}` : path;
      if (await isPathTaken(tx, full_path)) throw invalid({ path: TAKEN });
      const { rows } = await sql<{ id: number }>`
        select nextval(pg_get_serial_sequence('namespaces', 'id')) as id`.execute(tx.db);
      const id = rows[0]?.id ?? 0;
      await tx.db
        .insertInto('namespaces')
        .values({
          ...columnsOf({
            ...attributes,
            default_branch_protection_defaults: mergedProtection(
              attributes.default_branch_protection_defaults,
              settings.default_branch_protection_defaults,
            ),
          }),
          project_creation_level:
            attributes.project_creation_level ?? DEFAULT_PROJECT_CREATION[settings.default_project_creation],
          shared_runners_setting: attributes.shared_runners_setting ?? place?.shared_runners_setting,
          id,
          kind: 'group',
          parent_id: place?.id ?? null,
          traversal_ids: [...(place?.traversal_ids ?? []), id],
          name,
          path,
          full_path,
          full_name: place ? `${place.full_name} / ${name}` : name,
          visibility_level: level,
          avatar_key,
        })
        .execute();
      await dropRedirects(tx, full_path);
      if (userId !== null) {
        await tx.db
          .insertInto('members')
          .values({ user_id: userId, namespace_id: id, access_level: OWNER, created_by_id: userId })
          .execute();
      }
      await refreshAccess(tx, [id]);
      const group = await getGroup(tx, { id });
      tx.emit(groupCreated, { ...groupScope(group), payload: { ...groupPayload(group, place), owner_id: userId } });
      return group;
    }),
  );
};

/** @throws `forbidden` if only administrators can change the protection of default branches, and the caller wants to */
const requireProtectionRight = (
  { actor }: Pick<Context, 'actor'>,
  { group_owners_can_manage_default_branch_protection: isAllowed }: Settings,
  { default_branch_protection_defaults: wanted }: GroupAttributes,
): void => {
  if (wanted !== undefined && !isAllowed && !actor.isAdmin) {
    throw forbidden('only administrators can change the default branch protection of groups');
  }
};

/**
 * Changes a group. Undefined attributes stay as they are. A new path or name applies to everything below, and old paths
 * redirect to the new ones.
 *
 * @throws DomainError `not_found`, `forbidden`, `invalid` by attribute, `conflict` with a concurrent move
 */
export const updateGroup = async (ctx: Context, id: IdOrPath, input: GroupChanges): Promise<GroupRow> => {
  const { avatar, ...given } = input;
  // Clients remove a restriction with an empty text.
  const changes = given.ip_restriction_ranges?.trim() === '' ? { ...given, ip_restriction_ranges: null } : given;
  const found = await getGroup(ctx, id);
  requireGroupAbility(ctx, found, 'admin_group');
  if (changes.max_artifacts_size !== undefined && !ctx.actor.isAdmin) throw forbidden();
  const errors = {
    ...attributeErrors(changes, { topLevel: found.parent_id === null }),
    ...(await networkErrors(ctx, found, changes.ip_restriction_ranges)),
  };
  requireValid(errors);
  const { visibility } = changes;
  const settings = await getSettings(ctx);
  requireProtectionRight(ctx, settings, changes);
  const avatar_key = avatar ? await storeAvatar(ctx, avatar) : avatar;

  const updated = await reportTaken(() =>
    ctx.transaction(async (tx) => {
      const parent = found.parent_id === null ? null : await lockNamespace(tx, found.parent_id);
      const { shared_runners_setting } = changes;
      const concernsTree = [changes.name, changes.path, shared_runners_setting].some((change) => change !== undefined);
      const ids = concernsTree ? await lockTree(tx, found.id) : await lockGroup(tx, found.id);
      // Only values that are read under the lock count: the group may have been renamed or moved a moment ago.
      const before = await getGroup(tx, { id: found.id });
      requireGroupAbility(tx, before, 'admin_group');
      if (before.parent_id !== found.parent_id) throw conflict('The group was moved by another request; try again');
      const { name = before.name, path = before.path } = changes;
      const isRenamed = name !== before.name || path !== before.path;
      if (visibility) await checkVisibility(tx, before, visibilityLevel(visibility), parent);
      if (shared_runners_setting !== before.shared_runners_setting) requireAllowedBelow(parent, shared_runners_setting);
      await checkTemplateProject(tx, before, changes.file_template_project_id);
      const full_path = parent ? `${parent.full_path}/${path}` : path;
      const full_name = parent ? `${parent.full_name} / ${name}` : name;
      if (full_path !== before.full_path && (await isPathTaken(tx, full_path, before.id)))
        throw invalid({ path: TAKEN });
      await tx.db
        .updateTable('namespaces')
        .set({
          ...columnsOf({
            ...changes,
            default_branch_protection_defaults: mergedProtection(
              changes.default_branch_protection_defaults,
              protectionOf(before, settings.default_branch_protection_defaults),
            ),
          }),
          name,
          path,
          ...(visibility ? { visibility_level: visibilityLevel(visibility) } : {}),
          avatar_key,
          updated_at: sql`now()`,
        })
        .where('id', '=', before.id)
        .execute();
      if (shared_runners_setting !== undefined) await spreadSetting(tx, before, shared_runners_setting);
      if (isRenamed) {
        await relocateTree(tx, ids, before, { full_path, full_name, traversal_ids: before.traversal_ids });
      }
      if (avatar_key !== undefined) removeAvatar(tx, before.avatar_key);
      const group = await getGroup(tx, { id: before.id });
      if (group.ip_restriction_ranges !== before.ip_restriction_ranges) await reloadRestrictions(tx);
      emitUpdated(tx, before, group, parent);
      return group;
    }),
  );
  if (changes.ip_restriction_ranges !== undefined) forgetRestrictions(ctx.services);
  return updated;
};

/**
 * Moves a group with everything below it under another parent, or to the top level if the target is null. Its service
 * accounts then belong to the top-level group above it, and the networks of that group count instead of its own.
 *
 * @throws DomainError `not_found` for either group, `forbidden`, `invalid`
 */
export const transferGroup = async (ctx: Context, id: IdOrPath, target: IdOrPath | null): Promise<GroupRow> => {
  const found = await getGroup(ctx, id);
  requireGroupAbility(ctx, found, 'admin_group');
  const parent = target ? await getGroup(ctx, target) : null;
  if (parent) requireGroupAbility(ctx, parent, 'create_subgroup');
  else await requireTopLevel(ctx);
  if (found.parent_id === (parent?.id ?? null)) throw invalid({ base: ['The group is already there.'] });
  const errors = attributeErrors({ path: found.path }, { topLevel: parent === null });
  requireValid(errors);

  return reportTaken(() =>
    ctx.transaction(async (tx) => {
      const ids = await lockTree(tx, found.id);
      const place = parent ? await lockNamespace(tx, parent.id) : null;
      if (parent && !place) throw notFound('Group');
      if (place) await requireUnmarked(tx, place);
      if (place?.traversal_ids.includes(found.id)) throw invalid({ base: ['A group cannot be moved below itself.'] });
      const before = await getGroup(tx, { id: found.id });
      requireGroupAbility(tx, before, 'admin_group');
      if (parent) requireGroupAbility(tx, await getGroup(tx, { id: parent.id }), 'create_subgroup');
      if (place && before.visibility_level > place.visibility_level) {
        throw aboveParent(before.visibility_level, place.visibility_level);
      }
      await requireUnrestricted(tx, ...(await levelsIn(tx, ids)));
      const { name, path } = before;
      const full_path = place ? `${place.full_path}/${path}` : path;
      if (await isPathTaken(tx, full_path, before.id)) throw invalid({ path: TAKEN });
      await tx.db
        .updateTable('namespaces')
        .set({
          parent_id: place?.id ?? null,
          // Networks only restrict top-level groups.
          ...(place ? { ip_restriction_ranges: null } : {}),
          updated_at: sql`now()`,
        })
        .where('id', '=', before.id)
        .execute();
      await relocateTree(tx, ids, before, {
        full_path,
        full_name: place ? `${place.full_name} / ${name}` : name,
        traversal_ids: [...(place?.traversal_ids ?? []), before.id],
      });
      await inheritMarks(tx, before.id);
      if (place) await tightenBelow(tx, place, before);
      await refreshAccess(tx, [before.id]);
      // Only top-level groups manage service accounts.
      const root = place?.traversal_ids[0];
      if (root !== undefined) await moveServiceAccounts(tx, before.id, root);
      await afterProjectsMoved(tx, sql`select id from projects where namespace_id = any (${ids}::bigint[])`);
      const group = await getGroup(tx, { id: before.id });
      if (group.ip_restriction_ranges !== before.ip_restriction_ranges) await reloadRestrictions(tx);
      emitUpdated(tx, before, group, place);
      return group;
    }),
  );
};

/** Events report that these changed, but not their values, because everyone who can see the group sees the event. */
const OWNERS_ONLY: ReadonlySet<string> = new Set(['ip_restriction_ranges', 'avatar_key']);

const emitUpdated = (tx: Tx, before: GroupRow, after: GroupRow, parent: TreePosition | null): void => {
  const changes: Record<string, { previous: unknown; current: unknown }> = {};
  for (const name of [...attributeNames, 'full_path', 'parent_id', 'avatar_key']) {
    const [previous, current] = [attributeOf(before, name), attributeOf(after, name)];
    if (JSON.stringify(previous) === JSON.stringify(current)) continue;
    changes[name] = OWNERS_ONLY.has(name) ? { previous: null, current: null } : { previous, current };
  }
  if (Object.keys(changes).length === 0) return;
  const shown = wasAsOpen(groupScope(before), groupScope(after)) ? changes : withoutPrevious(changes, ['visibility']);
  const payload = groupUpdated.payload.parse({ ...groupPayload(after, parent), changes: shown });
  tx.emit(groupUpdated, { ...groupScope(after), payload });
};

const attributeOf = (group: GroupRow, name: string): unknown =>
  name === 'visibility' ? visibilityName(group.visibility_level) : Reflect.get(group, name);

const lockGroup = async (tx: Tx, id: number): Promise<number[]> => {
  await tx.db.selectFrom('namespaces').select('id').where('id', '=', id).forUpdate().execute();
  return [id];
};

const requireTopLevel = async (ctx: Context): Promise<void> => {
  if (ctx.actor.isAdmin) return;
  if (ctx.actor.userId === null) throw unauthenticated();
  const user = await getUser(ctx, ctx.actor.userId);
  if (!createsGroups(user)) throw forbidden();
};

/** Checks that the source of file templates is a project in the group that the caller can see. */
const checkTemplateProject = async (tx: Tx, group: GroupRow, id: number | null | undefined): Promise<void> => {
  if (id === undefined || id === null || id === group.file_template_project_id) return;
  const project = await tx.db
    .selectFrom('projects')
    .innerJoin('namespaces', 'namespaces.id', 'projects.namespace_id')
    .select('projects.id')
    .where('projects.id', '=', id)
    .where(sql<boolean>`${group.id} = any (namespaces.traversal_ids)`)
    .where(projectIsVisible(tx.actor))
    .executeTakeFirst();
  if (!project) throw invalid({ file_template_project_id: ['must be a project in the group'] });
};

/** Reports a path that a concurrent request took in the same way as one that was taken before. */
const reportTaken = async <T>(run: () => Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    throw brokenConstraint(error)?.endsWith('_full_path') ? invalid({ path: TAKEN }) : error;
  }
};
