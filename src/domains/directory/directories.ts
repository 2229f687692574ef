import { sql } from 'kysely';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import { withLdap } from '#platform/ldap/client.ts';
import { nameVariants } from '#platform/ldap/names.ts';
import type { LdapServer } from '#platform/ldap/servers.ts';
import type { LdapGroupLink } from './queries.ts';

export interface LinkedRoles {
  /** The role of each user by the group's links: the highest when several apply. */
  readonly roles: ReadonlyMap<number, number>;
  /** Providers that links name but the configuration does not. Their links give no role. */
  readonly unknownProviders: readonly string[];
}

/**
 * Queries the directories for the people that the group's links name. A user is matched by their identity at the
 * provider.
 *
 * @throws LdapError when any configured directory cannot be queried
 */
export const rolesInDirectories = async (ctx: Context, group: GroupRow): Promise<LinkedRoles> => {
  const links = await ctx.db.selectFrom('ldap_group_links').selectAll().where('namespace_id', '=', group.id).execute();
  const roles = new Map<number, number>();
  const unknownProviders: string[] = [];
  for (const [provider, ofProvider] of Map.groupBy(links, (link) => link.provider)) {
    const server = ctx.services.config.ldapServers.find(({ name }) => name === provider);
    if (!server) {
      unknownProviders.push(provider);
      continue;
    }
    const levels = await levelsByName(ctx, server, ofProvider);
    for (const { user_id, extern_uid } of await usersNamed(ctx, provider, [...levels.keys()])) {
      const level = levels.get(extern_uid) ?? 0;
      if (level > (roles.get(user_id) ?? 0)) roles.set(user_id, level);
    }
  }
  return { roles, unknownProviders };
};

/** Returns the roles by distinguished name, in lower case and in every spelling of the name. */
const levelsByName = async (
  ctx: Context,
  server: LdapServer,
  links: readonly LdapGroupLink[],
): Promise<Map<string, number>> => {
  const levels = new Map<string, number>();
  await withLdap(server, async (session) => {
    for (const { cn, filter, group_access } of links) {
      ctx.signal.throwIfAborted();
      const names = cn === null ? await session.membersByFilter(filter ?? '') : await session.membersOfGroup(cn);
      for (const name of names.flatMap(nameVariants)) {
        levels.set(name, Math.max(group_access, levels.get(name) ?? 0));
      }
    }
  });
  return levels;
};

const NAMES_AT_ONCE = 5_000;

const usersNamed = async (ctx: Context, provider: string, names: readonly string[]) => {
  const found: { user_id: number; extern_uid: string }[] = [];
  for (let start = 0; start < names.length; start += NAMES_AT_ONCE) {
    const { rows } = await sql<{ user_id: number; extern_uid: string }>`
      select i.user_id, lower(i.extern_uid) as extern_uid from identities i join users u on u.id = i.user_id
      where i.provider = ${provider} and u.user_type = 'human'
        and lower(i.extern_uid) = any (${names.slice(start, start + NAMES_AT_ONCE)}::text[])`.execute(ctx.db);
    found.push(...rows);
  }
  return found;
};
