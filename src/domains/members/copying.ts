import { sql } from 'kysely';
import { isUnexpired } from '#domains/access/roles.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { joinSource, lockManaged } from './joining.ts';
import { levelOn, projectSource } from './model.ts';
import { requireAdminMembers } from './policy.ts';

/**
 * Adds the direct members of one project to another, with the same level and expiry, limited to the caller's own level.
 * Existing members are left unchanged. Requires a Maintainer of both. Returns the number of added members.
 *
 * @throws DomainError `forbidden`
 */
export const copyMembers = async (ctx: Context, from: ProjectRow, to: ProjectRow): Promise<number> => {
  const given = projectSource(to);
  requireAdminMembers(ctx, given);
  requireAbility(ctx, from, 'import_members');
  return ctx.transaction(async (tx) => {
    const source = await lockManaged(tx, given);
    requireAbility(tx, await getProject(tx, { id: from.id }), 'import_members');
    const people = await tx.db
      .selectFrom('members')
      .innerJoin('users', 'users.id', 'members.user_id')
      .select(['users.id', 'members.access_level', 'members.expires_at'])
      .where('members.project_id', '=', from.id)
      .where('users.user_type', '=', 'human')
      .where(isUnexpired('members'))
      .where(
        sql<boolean>`not exists (select from members m where m.project_id = ${to.id} and m.user_id = users.id
          and ${isUnexpired('m')})`,
      )
      .orderBy('users.id')
      .execute();
    let added = 0;
    for (const { id, access_level, expires_at } of people) {
      const level = ctx.actor.isAdmin ? access_level : Math.min(access_level, levelOn(source));
      try {
        await joinSource(tx, source, {
          user_id: id,
          access_level: level,
          expires_at,
          created_by_id: ctx.actor.userId,
        });
        added += 1;
      } catch (error) {
        // They already have a higher level through a group.
        if (!(error instanceof DomainError) || error.code !== 'invalid') throw error;
      }
    }
    return added;
  });
};
