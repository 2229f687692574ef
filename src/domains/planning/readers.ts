import { sql } from 'kysely';
import { INTERNAL, PUBLIC } from '#domains/access/model.ts';
import { usersByProjectLevel } from '#domains/access/queries.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';

export interface Asked {
  readonly project: ProjectRow;
  readonly userIds: readonly number[];
}

/**
 * Returns those users who can read a part of the projects, by project: administrators, members with the role, and if
 * the part is as open as its project, auditors and everyone to whom the project is open.
 */
export const readersByProject = async (
  ctx: Pick<Context, 'db'>,
  asked: readonly Asked[],
  role: number,
  isOpen: (project: ProjectRow) => boolean,
): Promise<ReadonlyMap<number, ReadonlySet<number>>> => {
  const all = new Set(asked.flatMap(({ userIds }) => userIds));
  if (all.size === 0) return new Map();
  const pairs = asked.map(({ project, userIds }) => ({ projectId: project.id, userIds }));
  const members = await usersByProjectLevel(ctx, pairs, role);
  const others = asked.flatMap(({ project, userIds }) => userIds.filter((id) => !members.get(project.id)?.has(id)));
  const rows =
    others.length === 0
      ? []
      : await ctx.db
          .selectFrom('users')
          .select(['id', 'is_admin', 'is_auditor', 'external'])
          .where(sql<boolean>`id = any (${[...new Set(others)]}::bigint[])`)
          .execute();
  const users = new Map(rows.map((row) => [row.id, row]));
  const mayRead = (project: ProjectRow, userId: number): boolean => {
    if (members.get(project.id)?.has(userId)) return true;
    const user = users.get(userId);
    if (!user || user.is_admin) return user !== undefined;
    if (!isOpen(project)) return false;
    return user.is_auditor || project.visibility_level >= (user.external ? PUBLIC : INTERNAL);
  };
  return new Map(
    asked.map(({ project, userIds }) => [project.id, new Set(userIds.filter((id) => mayRead(project, id)))]),
  );
};

/** Returns those of the readers who can be assigned: people with an active account, and those who are assigned already. */
export const assignableAmong = async (
  { db }: Pick<Context, 'db'>,
  readers: ReadonlySet<number>,
  assigned: readonly number[] = [],
): Promise<ReadonlySet<number>> => {
  const added = [...readers].filter((id) => !assigned.includes(id));
  if (added.length === 0) return readers;
  const active = await db
    .selectFrom('users')
    .select('id')
    .where(sql<boolean>`id = any (${added}::bigint[])`)
    .where('state', '=', 'active')
    .execute();
  return new Set([...assigned.filter((id) => readers.has(id)), ...active.map(({ id }) => id)]);
};

/** Returns true if everyone to whom the project is open can read its merge requests. */
export const isOpenForReview = ({ merge_requests_access_level, repository_access_level }: ProjectRow): boolean =>
  merge_requests_access_level === 'enabled' && repository_access_level === 'enabled';

/**
 * Returns the ids of the users with these usernames.
 *
 * @throws DomainError `invalid` for the field, naming those that do not exist
 */
export const userIdsByUsernames = async (
  ctx: Pick<Context, 'db'>,
  usernames: readonly string[],
  field: 'assignee_usernames' | 'reviewer_usernames' | 'usernames',
): Promise<number[]> => {
  const wanted = [...new Set(usernames.map((username) => username.toLowerCase()))];
  const rows = await ctx.db
    .selectFrom('users')
    .select(['id', sql<string>`lower(username)`.as('name')])
    .where(sql<boolean>`lower(username) = any (${wanted}::text[])`)
    .execute();
  const known = new Set(rows.map((row) => row.name));
  const wrong = wanted.filter((name) => !known.has(name));
  if (wrong.length > 0) throw invalid({ [field]: wrong.map((name) => `${name} cannot be assigned`) });
  return rows.map((row) => row.id);
};
