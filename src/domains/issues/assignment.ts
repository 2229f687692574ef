import { sql } from 'kysely';
import { GUEST, INTERNAL, PUBLIC } from '#domains/access/model.ts';
import { usersWithProjectLevel } from '#domains/access/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';

/** Returns those users who can read the project's issues. */
export const readersAmong = async (
  ctx: Context,
  project: ProjectRow,
  userIds: readonly number[],
): Promise<ReadonlySet<number>> => {
  if (userIds.length === 0) return new Set();
  const members = await usersWithProjectLevel(ctx, project.id, userIds, GUEST);
  const others = userIds.filter((id) => !members.has(id));
  if (others.length === 0) return members;
  const isOpen = project.issues_access_level === 'enabled' && project.visibility_level >= INTERNAL;
  const { rows } = await sql<{ id: number }>`
    select id from users where id = any (${others}::bigint[]) and (is_admin
      or (${isOpen}::boolean and (not external or ${project.visibility_level >= PUBLIC}::boolean)))`.execute(ctx.db);
  return new Set([...members, ...rows.map((row) => row.id)]);
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
