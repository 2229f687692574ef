import { sql } from 'kysely';
import { DEVELOPER, MAINTAINER, OWNER } from '#domains/access/model.ts';
import { granted, PROJECT_ROLES, placesSharedWith } from '#domains/access/roles.ts';
import { userIdsByAddresses } from '#domains/users/addresses.ts';
import type { Context } from '#platform/context.ts';

/** The owners that a rule names in a project. */
export interface NamedOwners {
  readonly id: number;
  readonly project_id: number;
  readonly owners: readonly string[];
}

export interface FoundOwners {
  readonly user_ids: readonly number[];
  readonly group_ids: readonly number[];
}

const ROLES: Readonly<Record<string, number>> = {
  '@@developer': DEVELOPER,
  '@@developers': DEVELOPER,
  '@@maintainer': MAINTAINER,
  '@@maintainers': MAINTAINER,
  '@@owner': OWNER,
  '@@owners': OWNER,
};

/**
 * Returns the users and groups that each rule names as of now, by the id of the rule: users by name or confirmed
 * address, direct members of the project by role, and groups that contain the project or are invited to it. Other names
 * are left out.
 */
export const ownersByRules = async (
  ctx: Pick<Context, 'db' | 'services'>,
  rules: readonly NamedOwners[],
): Promise<ReadonlyMap<number, FoundOwners>> => {
  if (rules.length === 0) return new Map();
  const tokens = new Set(rules.flatMap(({ owners }) => owners.map((owner) => owner.toLowerCase())));
  const projectIds = [...new Set(rules.map(({ project_id }) => project_id))];
  const names = [...tokens].filter((token) => /^@[^@]/.test(token)).map((token) => token.slice(1));
  const [users, groups, members] = await Promise.all([
    findUsers(
      ctx,
      names,
      [...tokens].filter((token) => !token.startsWith('@')),
    ),
    findGroups(ctx, projectIds, names),
    [...tokens].some((token) => token in ROLES) ? findMembers(ctx, projectIds) : [],
  ]);
  const usersByName = Map.groupBy(users, ({ token }) => token);
  const groupsByName = Map.groupBy(groups, ({ project_id, path }) => `${project_id}:@${path}`);
  const membersByRole = Map.groupBy(members, ({ project_id, access_level }) => `${project_id}:${access_level}`);
  return new Map(
    rules.map(({ id, project_id, owners }) => {
      const lowered = owners.map((owner) => owner.toLowerCase());
      const user_ids = lowered.flatMap((token) => [
        ...(usersByName.get(token) ?? []).map((user) => user.id),
        ...(membersByRole.get(`${project_id}:${ROLES[token]}`) ?? []).map(({ user_id }) => user_id),
      ]);
      const group_ids = lowered.flatMap((token) =>
        (groupsByName.get(`${project_id}:${token}`) ?? []).map(({ group_id }) => group_id),
      );
      return [id, { user_ids: ascending(user_ids), group_ids: ascending(group_ids) }];
    }),
  );
};

const ascending = (ids: readonly number[]): number[] => [...new Set(ids)].sort((a, b) => a - b);

const findUsers = async (
  ctx: Pick<Context, 'db' | 'services'>,
  names: readonly string[],
  addresses: readonly string[],
): Promise<readonly { readonly id: number; readonly token: string }[]> => {
  const { rows } = await sql<{ id: number; token: string }>`
    select u.id, '@' || lower(u.username) as token from users u where lower(u.username) = any (${names}::text[])`.execute(
    ctx.db,
  );
  const byAddress = await userIdsByAddresses(ctx, addresses);
  return [...rows, ...[...byAddress].map(([token, id]) => ({ id, token }))];
};

/** Only groups whose members take part in the project: others would reveal their members. */
const findGroups = async (ctx: Pick<Context, 'db'>, projectIds: readonly number[], paths: readonly string[]) => {
  if (paths.length === 0) return [];
  const { rows } = await sql<{ project_id: number; group_id: number; path: string }>`
    select p.id as project_id, n.id as group_id, lower(n.full_path) as path
    from namespaces n
    cross join (projects p join namespaces above on above.id = p.namespace_id)
    where n.kind = 'group' and lower(n.full_path) = any (${paths}::text[]) and p.id = any (${projectIds}::bigint[])
      and (n.id = any (above.traversal_ids)
        or p.id in (${placesSharedWith('project', sql.ref('n.id'))})
        or above.traversal_ids && array(${placesSharedWith('namespace', sql.ref('n.id'))}))`.execute(ctx.db);
  return rows;
};

const findMembers = async (ctx: Pick<Context, 'db'>, projectIds: readonly number[]) => {
  const { membership } = PROJECT_ROLES;
  const { rows } = await sql<{ project_id: number; user_id: number; access_level: number }>`
    ${granted(
      membership,
      sql`${membership.place} as project_id, ${membership.user} as user_id, ${membership.level} as access_level`,
      { places: sql`${projectIds}::bigint[]`, least: DEVELOPER },
    )}`.execute(ctx.db);
  return rows;
};
