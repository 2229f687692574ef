import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { readDuration } from '#platform/values/durations.ts';

/**
 * Returns the time before which jobs were created that are archived now, or null if jobs are never archived (setting
 * `archive_builds_in_human_readable`).
 */
export const archivedBefore = async (ctx: Pick<Context, 'services' | 'clock'>): Promise<Date | null> => {
  const seconds = readDuration((await getSettings(ctx)).archive_builds_in_human_readable);
  return seconds === null ? null : new Date(ctx.clock.now().getTime() - seconds * 1_000);
};

/** Whether the job is archived. It can be read, but never runs again. `before` is from `archivedBefore`. */
export const isArchived = (job: { readonly created_at: string }, before: Date | null): boolean =>
  before !== null && new Date(job.created_at) < before;

/** Returns the ids of the jobs that are not archived. */
export const withoutArchived = async (
  ctx: Pick<Context, 'db' | 'services' | 'clock'>,
  ids: readonly number[],
): Promise<readonly number[]> => {
  const before = await archivedBefore(ctx);
  if (before === null || ids.length === 0) return ids;
  const rows = await ctx.db
    .selectFrom('jobs')
    .select('id')
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .where('created_at', '>=', before.toISOString())
    .execute();
  const current = new Set(rows.map(({ id }) => id));
  return ids.filter((id) => current.has(id));
};

/** @throws `forbidden` if the job is archived */
export const requireNotArchived = async (ctx: Context, job: { readonly created_at: string }): Promise<void> => {
  if (isArchived(job, await archivedBefore(ctx))) throw forbidden('Job is archived');
};
