import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { DAY_MS } from '#platform/values/units.ts';

const FOLDERS = 256;
const ASKED_AT_ONCE = 1_000;
/** If more than this many are unknown, and more unknown than known, the database has lost data. */
const MANY = 10;

/**
 * Removes repositories that belong to no project and have not changed for a day. They are left behind if a process dies
 * before the project commits, or before a repository replaces another. Each hour of the day handles its share of the
 * folders. For the job, which never runs twice at a time. A repository that is already gone is not an error.
 */
export const sweepRepositories = async (ctx: Context, hour = ctx.clock.now().getUTCHours()): Promise<void> => {
  // Another database knows none of these repositories, and would remove them all.
  if (!(await ctx.services.git.claim(await ownDatabase(ctx)))) {
    ctx.log.error('the repositories belong to another database; none was removed');
    return;
  }
  for (let number = hour; number < FOLDERS; number += 24) {
    ctx.signal.throwIfAborted();
    await sweepFolder(ctx, `@hashed/${number.toString(16).padStart(2, '0')}`);
  }
};

/** Identifies the database by its creation time, which also survives a move. */
const ownDatabase = async ({ db }: Context): Promise<string> => {
  const query = db.selectFrom('application_settings').select('created_at');
  return (await query.executeTakeFirstOrThrow()).created_at;
};

const sweepFolder = async (ctx: Context, folder: string): Promise<void> => {
  const { git } = ctx.services;
  const paths = await git.stored(folder);
  const unknown = await unknownOf(ctx, paths);
  if (unknown.length > MANY && unknown.length * 2 > paths.length) {
    ctx.log.error({ folder, unknown: unknown.length }, 'most repositories belong to no project; none was removed');
    return;
  }
  for (const path of unknown) {
    const changedAt = await git.changedAt(path);
    if (changedAt === null || ctx.clock.now().getTime() - changedAt.getTime() < DAY_MS) continue;
    await git.remove(path);
    ctx.log.info({ path, changed_at: changedAt }, 'removed a repository that belongs to no project');
  }
};

const unknownOf = async (ctx: Context, paths: readonly string[]): Promise<string[]> => {
  const unknown: string[] = [];
  for (let from = 0; from < paths.length; from += ASKED_AT_ONCE) {
    const { rows } = await sql<{ path: string }>`
      select path from unnest(${paths.slice(from, from + ASKED_AT_ONCE)}::text[]) as given (path)
      where not exists (select from projects where disk_path = given.path)`.execute(ctx.db);
    unknown.push(...rows.map(({ path }) => path));
  }
  return unknown;
};
