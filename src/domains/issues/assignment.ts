import { sql } from 'kysely';
import { GUEST, INTERNAL, PUBLIC } from '#domains/access/model.ts';
import { usersByProjectLevel } from '#domains/access/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';

/** Returns those users who can read the project's issues. */
export const readersAmong = async (
  ctx: Pick<Context, 'db'>,
  project: ProjectRow,
  userIds: readonly number[],
): Promise<ReadonlySet<number>> => (await readersByProject(ctx, [{ project, userIds }])).get(project.id) ?? new Set();

/** The same for users of several projects, by project. */
export const readersByProject = async (
  ctx: Pick<Context, 'db'>,
  asked: readonly { readonly project: ProjectRow; readonly userIds: readonly number[] }[],
): Promise<ReadonlyMap<number, ReadonlySet<number>>> => {
  const all = new Set(asked.flatMap(({ userIds }) => userIds));
  if (all.size === 0) return new Map();
  const places = asked.map(({ project, userIds }) => ({ projectId: project.id, userIds }));
  const members = await usersByProjectLevel(ctx, places, GUEST);
  const others = asked.flatMap(({ project, userIds }) => userIds.filter((id) => !members.get(project.id)?.has(id)));
  const rows =
    others.length === 0
      ? []
      : await ctx.db
          .selectFrom('users')
          .select(['id', 'is_admin', 'external'])
          .where(sql<boolean>`id = any (${[...new Set(others)]}::bigint[])`)
          .execute();
  const users = new Map(rows.map((row) => [row.id, row]));
  const mayRead = ({ id, issues_access_level, visibility_level }: ProjectRow, userId: number): boolean => {
    if (members.get(id)?.has(userId)) return true;
    const user = users.get(userId);
    if (!user || user.is_admin) return user !== undefined;
    return issues_access_level === 'enabled' && visibility_level >= (user.external ? PUBLIC : INTERNAL);
  };
  return new Map(
    asked.map(({ project, userIds }) => [project.id, new Set(userIds.filter((id) => mayRead(project, id)))]),
  );
};

/**
 * Returns the ids without duplicates. The error for a user who cannot be assigned does not reveal whether the user
 * exists.
 *
 * @throws DomainError `invalid`
 */
export const checkAssignees = async (
  ctx: Context,
  project: ProjectRow,
  userIds: readonly number[],
): Promise<number[]> => {
  // Forms send 0 for nobody.
  const wanted = [...new Set(userIds)].filter((id) => id !== 0);
  const readers = await readersAmong(ctx, project, wanted);
  const wrong = wanted.filter((id) => !readers.has(id));
  if (wrong.length > 0) throw invalid({ assignee_ids: wrong.map((id) => `${id} cannot be assigned`) });
  return wanted.sort((a, b) => a - b);
};

/** Returns the ids of the users with these usernames. @throws DomainError `invalid`, naming those that do not exist */
export const userIdsByUsernames = async (ctx: Pick<Context, 'db'>, usernames: readonly string[]): Promise<number[]> => {
  const wanted = [...new Set(usernames.map((username) => username.toLowerCase()))];
  const rows = await ctx.db
    .selectFrom('users')
    .select(['id', sql<string>`lower(username)`.as('name')])
    .where(sql<boolean>`lower(username) = any (${wanted}::text[])`)
    .execute();
  const known = new Set(rows.map((row) => row.name));
  const wrong = wanted.filter((name) => !known.has(name));
  if (wrong.length > 0) throw invalid({ assignee_usernames: wrong.map((name) => `${name} cannot be assigned`) });
  return rows.map((row) => row.id);
};
