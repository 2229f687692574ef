import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { Superseded } from './model.ts';

const CHECK_EVERY_MS = 1_000;

/**
 * Runs `work` with a signal that aborts it soon after the transfer was canceled or another attempt took over. Each write
 * checks that too: this ends what runs long between two writes, such as an upload.
 *
 * @throws Superseded in that case
 */
export const whileCurrent = async <T>(
  ctx: Context,
  table: 'project_exports' | 'project_imports' | 'relation_imports',
  { id, attempt }: { readonly id: number; readonly attempt: number },
  work: (ctx: Context) => Promise<T>,
): Promise<T> => {
  const stop = new AbortController();
  const check = async () => {
    const { rows } = await sql`
      select from ${sql.table(table)} where id = ${id} and attempt = ${attempt} and status = 'started'`.execute(ctx.db);
    if (rows.length === 0) stop.abort(new Superseded());
  };
  const timer = setInterval(() => {
    check().catch((error: unknown) => ctx.log.warn({ err: error, table, id }, 'could not check whether to go on'));
  }, CHECK_EVERY_MS);
  try {
    return await work({ ...ctx, signal: AbortSignal.any([ctx.signal, stop.signal]) });
  } catch (error) {
    throw stop.signal.aborted && !ctx.signal.aborted ? new Superseded() : error;
  } finally {
    clearInterval(timer);
  }
};
