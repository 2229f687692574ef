import { sql } from 'kysely';
import { namespacesByIds } from '#domains/groups/queries.ts';
import { isInLine, syncMember } from '#domains/members/synced.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';

interface Row {
  readonly namespace_id: number;
  /** By the links; null where none gives a role any more. */
  readonly level: number | null;
  readonly access_level: number | null;
  readonly source: string | null;
  readonly override: boolean | null;
}

/**
 * Brings the memberships that SAML gives somebody in line with the groups that an assertion names: those of linked groups
 * get the highest linked role, and what SAML gave before and no link gives now is taken. Other memberships stay.
 */
export const giveRoles = async (ctx: Context, userId: number, groups: readonly string[]): Promise<void> => {
  const { rows } = await sql<Row>`
    with linked as (
      select namespace_id, max(access_level) as level from saml_group_links where name = any (${groups}::text[])
      group by namespace_id),
    present as (
      select namespace_id, access_level, source, override from members
      where user_id = ${userId} and namespace_id is not null and (expires_at is null or expires_at > current_date)
        and (source = 'saml' or namespace_id in (select namespace_id from linked)))
    select namespace_id, level, access_level, source, override
    from linked full join present using (namespace_id) order by namespace_id`.execute(ctx.db);
  const wrong = rows.filter((row) => !isInLine(memberIn(row), row.level, 'saml'));
  if (wrong.length === 0) return;
  // What the provider says is not done by the person, who may not even know of the group.
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
