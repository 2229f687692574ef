import { sql } from 'kysely';
import { isUnexpired } from '#domains/access/roles.ts';
import { namespacesByIds } from '#domains/groups/queries.ts';
import { isInLine, syncMember } from '#domains/members/synced.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';

interface Row {
  readonly namespace_id: number;
  /** The role by the links. Null when no link gives one any more. */
  readonly level: number | null;
  readonly access_level: number | null;
  readonly source: string | null;
  readonly override: boolean | null;
}

/**
 * Syncs a user's SAML memberships with the groups in an assertion. Members of linked groups get the highest linked
 * role. Roles that SAML gave and no link gives any more are removed. Other memberships stay unchanged.
 */
export const giveRoles = async (ctx: Context, userId: number, groups: readonly string[]): Promise<void> => {
  const { rows } = await sql<Row>`
    with linked as (
      select namespace_id, max(access_level) as level from saml_group_links where name = any (${groups}::text[])
      group by namespace_id),
    present as (
      select namespace_id, access_level, source, override from members
      where user_id = ${userId} and namespace_id is not null and ${isUnexpired('members')}
        and (source = 'saml' or namespace_id in (select namespace_id from linked)))
    select namespace_id, level, access_level, source, override
    from linked full join present using (namespace_id) order by namespace_id`.execute(ctx.db);
  const wrong = rows.filter((row) => !isInLine(memberIn(row), row.level, 'saml'));
  if (wrong.length === 0) return;
  // The change comes from the provider, not from the user, who may not even be able to see the group.
  const system = createContextFactory(ctx.services)({ ...ctx, actor: systemActor });
  const found = await namespacesByIds(
    system,
    wrong.map((row) => row.namespace_id),
  );
  for (const { namespace_id, level } of wrong) {
    const group = found.get(namespace_id);
    if (group) await system.transaction((tx) => syncMember(tx, group, userId, level, 'saml'));
  }
};

const memberIn = ({ access_level, source, override }: Row) =>
  access_level === null ? undefined : { access_level, source, override: override ?? false };
