import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { granted, holdersOfProject, MEMBER_ROLES, NAMESPACE_ROLES } from './roles.ts';

/** Returns those of the given users who hold at least the role `least` on the project. */
export const usersWithProjectLevel = async (
  ctx: Pick<Context, 'db'>,
  projectId: number,
  userIds: readonly number[],
  least: number,
): Promise<ReadonlySet<number>> =>
  (await usersByProjectLevel(ctx, [{ projectId, userIds }], least)).get(projectId) ?? new Set();

/** The same for users of several projects, by project. Projects where nobody holds the role are absent. */
export const usersByProjectLevel = async (
  ctx: Pick<Context, 'db'>,
  asked: readonly { readonly projectId: number; readonly userIds: readonly number[] }[],
  least: number,
): Promise<ReadonlyMap<number, ReadonlySet<number>>> => {
  const pairs = asked.flatMap(({ projectId, userIds }) => userIds.map((userId) => ({ projectId, userId })));
  const { rows } = await sql<{ id: number; user_id: number }>`
    select p.id, asked.user_id
    from unnest(${pairs.map((each) => each.projectId)}::bigint[], ${pairs.map((each) => each.userId)}::bigint[])
      as asked (project_id, user_id)
    join projects p on p.id = asked.project_id
    where exists (${holdersOfProject('p', { user: sql.ref('asked.user_id'), least })})`.execute(ctx.db);
  const found = Map.groupBy(rows, ({ id }) => id);
  return new Map([...found].map(([id, users]) => [id, new Set(users.map((row) => row.user_id))]));
};

/** Returns those of the given users who hold at least the role `least` on the group. */
export const usersWithGroupLevel = async (
  ctx: Pick<Context, 'db'>,
  groupId: number,
  userIds: readonly number[],
  least: number,
): Promise<ReadonlySet<number>> => {
  const { rows } = await sql<{ user_id: number }>`${granted(NAMESPACE_ROLES, NAMESPACE_ROLES.user, {
    users: sql`${userIds}::bigint[]`,
    place: groupId,
    least,
  })}`.execute(ctx.db);
  return new Set(rows.map((row) => row.user_id));
};

/** The same for several groups, by group. Groups where nobody holds the role are absent. */
export const usersByGroupLevel = async (
  ctx: Pick<Context, 'db'>,
  groupIds: readonly number[],
  userIds: readonly number[],
  least: number,
): Promise<ReadonlyMap<number, ReadonlySet<number>>> => {
  if (groupIds.length === 0) return new Map();
  const { place, user } = NAMESPACE_ROLES;
  const { rows } = await sql<{ group_id: number; user_id: number }>`${granted(
    NAMESPACE_ROLES,
    sql`${place} as group_id, ${user} as user_id`,
    { users: sql`${userIds}::bigint[]`, places: sql`${groupIds}::bigint[]`, least },
  )}`.execute(ctx.db);
  const found = Map.groupBy(rows, ({ group_id }) => group_id);
  return new Map([...found].map(([id, users]) => [id, new Set(users.map((row) => row.user_id))]));
};

/** A group or a project, by id. */
type GroupOrProject = { readonly namespace_id: number } | { readonly project_id: number };

/**
 * Returns the mail addresses of people with at least the role `least`, direct or inherited. Leaves out roles through
 * shares, bots, and people who cannot sign in or have not confirmed their address.
 */
export const addressesOfHolders = async (
  ctx: Pick<Context, 'db'>,
  place: GroupOrProject,
  least: number,
  limit: number,
): Promise<string[]> => {
  const holders =
    'project_id' in place
      ? sql`select h.user_id from projects p
          cross join lateral (${holdersOfProject('p', { least, throughShares: false })}) h (user_id)
          where p.id = ${place.project_id}`
      : granted(MEMBER_ROLES, MEMBER_ROLES.user, { place: place.namespace_id, least });
  const { rows } = await sql<{ email: string }>`
    select u.email from users u
    where u.state = 'active' and u.user_type = 'human' and u.confirmed_at is not null and u.id in (${holders})
    order by u.id limit ${limit}`.execute(ctx.db);
  return rows.map(({ email }) => email);
};
