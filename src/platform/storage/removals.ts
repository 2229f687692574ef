import { sql } from 'kysely';
import { z } from 'zod';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import { pauseAfter } from '#platform/concurrency/pause.ts';
import type { Context, Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';

/** Longer than any request lasts. */
const UNCLAIMED_HOURS = 24;

/**
 * Lists files for removal before they are written, so that none is left behind if the process dies before their row
 * exists. `claimKeys` takes them off the list.
 */
export const reserveKeys = async (ctx: Pick<Context, 'db'>, keys: readonly string[]): Promise<void> => {
  const due_at = sql<string>`now() + make_interval(hours => ${UNCLAIMED_HOURS})`;
  await ctx.db
    .insertInto('storage_removals')
    .values(keys.map((storage_key) => ({ storage_key, due_at })))
    .execute();
};

/**
 * Takes files off the list, in the transaction that inserts their row.
 *
 * @throws DomainError `unavailable` if one of them is already being removed
 */
export const claimKeys = async (tx: Tx, keys: readonly string[]): Promise<void> => {
  const claimed = await tx.db
    .deleteFrom('storage_removals')
    .where('storage_key', 'in', [...keys])
    .returning('storage_key')
    .execute();
  if (claimed.length < keys.length) throw new DomainError('unavailable', 'The upload took too long. Repeat it.');
};

/** Makes listed files due at once, after a failure. */
export const dropKeys = async (ctx: Pick<Context, 'db'>, keys: readonly string[]): Promise<void> => {
  await ctx.db
    .updateTable('storage_removals')
    .set({ due_at: sql`now()` })
    .where('storage_key', 'in', [...keys])
    .execute();
};

const BATCH = 100;
const PARALLEL = 8;

/**
 * The job `storage.remove_due`: removes the files that are listed for removal and due. The rows stay locked meanwhile,
 * so a file that is being claimed is never removed.
 */
export const removeDueFiles = defineJob({
  name: 'storage.remove_due',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '* * * * *',
  long: true,
  run: async (ctx) => {
    for (;;) {
      ctx.signal.throwIfAborted();
      const begin = performance.now();
      if ((await removeBatch(ctx)) < BATCH) return;
      await pauseAfter(performance.now() - begin, ctx.signal);
    }
  },
});

const removeBatch = async (ctx: Context): Promise<number> =>
  ctx.transaction(async ({ db }) => {
    const { rows } = await sql<{ storage_key: string }>`
      select storage_key from storage_removals where due_at <= now()
      order by due_at, storage_key limit ${sql.lit(BATCH)} for update skip locked`.execute(db);
    const keys = rows.map(({ storage_key }) => storage_key);
    if (keys.length === 0) return 0;
    await mapLimit(keys, PARALLEL, (key) => ctx.services.storage.remove(key));
    await db.deleteFrom('storage_removals').where('storage_key', 'in', keys).execute();
    return keys.length;
  });
