import { PRIVATE, visibilityName } from '#domains/access/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';

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
