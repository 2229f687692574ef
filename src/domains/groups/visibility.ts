import { sql } from 'kysely';
import { PRIVATE, visibilityName } from '#domains/access/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import type { GroupRow } from './queries.ts';
import type { TreePosition } from './tree.ts';

/**
 * Returns a test for the levels that `restricted_visibility_levels` denies the caller. Administrators are not
 * restricted.
 */
const restrictedLevels = async (ctx: Context): Promise<(level: number) => boolean> => {
  const { restricted_visibility_levels } = await getSettings(ctx);
  return (level) => !ctx.actor.isAdmin && restricted_visibility_levels.includes(visibilityName(level));
};

/** Returns the most open level up to `highest` that the caller may set. */
export const highestUnrestricted = async (ctx: Context, highest: number): Promise<number> => {
  const isRestricted = await restrictedLevels(ctx);
  let level = highest;
  while (level > PRIVATE && isRestricted(level)) level -= 10;
  return level;
};

/** @throws DomainError `invalid` if one of the levels is restricted for the caller */
export const requireUnrestricted = async (ctx: Context, ...levels: readonly number[]): Promise<void> => {
  const isRestricted = await restrictedLevels(ctx);
  const problems = levels
    .filter(isRestricted)
    .map((level) => `${visibilityName(level)} has been restricted by your administrator`);
  if (problems.length > 0) throw invalid({ visibility_level: problems });
};

/** Returns the levels of the groups and of the projects in them. */
export const levelsIn = async (tx: Tx, ids: readonly number[]): Promise<readonly number[]> => {
  const { rows } = await sql<{ level: number }>`
    select visibility_level as level from namespaces where id = any (${ids}::bigint[])
    union select visibility_level from projects where namespace_id = any (${ids}::bigint[]) order by level`.execute(
    tx.db,
  );
  return rows.map(({ level }) => level);
};

/** Returns the refusal of a level that the parent does not allow. */
export const aboveParent = (level: number, parentLevel: number) =>
  invalid({
    visibility_level: [
      `${visibilityName(level)} is not allowed since the parent group has a ${visibilityName(parentLevel)} visibility.`,
    ],
  });

/**
 * Checks that nothing is more visible than its parent. Only direct children are checked, as they limit everything
 * below.
 *
 * @throws DomainError `invalid`
 */
export const checkVisibility = async (
  tx: Tx,
  group: GroupRow,
  level: number,
  parent: TreePosition | null,
): Promise<void> => {
  if (level === group.visibility_level) return;
  await requireUnrestricted(tx, level);
  if (parent && level > parent.visibility_level) throw aboveParent(level, parent.visibility_level);
  if (level > group.visibility_level) return;
  const { rows } = await sql<{ groups: boolean; projects: boolean }>`
    select exists (select 1 from namespaces where parent_id = ${group.id} and visibility_level > ${level}) as groups,
           exists (select 1 from projects where namespace_id = ${group.id} and visibility_level > ${level}) as projects`.execute(
    tx.db,
  );
  const problems: string[] = [];
  const name = visibilityName(level);
  if (rows[0]?.groups) problems.push(`${name} is not allowed since there are sub-groups with higher visibility.`);
  if (rows[0]?.projects) {
    problems.push(`${name} is not allowed since this group contains projects with higher visibility.`);
  }
  if (problems.length > 0) throw invalid({ visibility_level: problems });
};
