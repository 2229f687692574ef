import { sql } from 'kysely';
import { defineCache } from '../cache.ts';
import type { Context } from '../context.ts';
import { DAY_MS } from '../values/units.ts';

/** A table partitioned by a time column. Rows go by dropping partitions, which costs the same for any number of rows. */
export interface PartitionedTable {
  readonly name: string;
  /** The length of a partition, in UTC. Weeks begin on Monday. */
  readonly step: 'day' | 'week' | 'month';
  /** Storage parameters of each partition, such as `fillfactor = 90`. */
  readonly options?: string;
}

const WEEK_MS = 7 * DAY_MS;

/** The partitions that are known to exist. */
const knownPartitions = defineCache<string, true>({ name: 'partitions by time', limit: 1_000, ttlMs: DAY_MS });

/** Creates the partitions that rows of these times need. Commits at once, because other transactions need them too. */
export const ensurePartitions = async (
  { services }: Pick<Context, 'services'>,
  { name, step, options }: PartitionedTable,
  times: readonly (string | Date)[],
): Promise<void> => {
  const known = knownPartitions(services);
  for (const time of times) {
    const at = new Date(time);
    const key = `${name} ${startOf(at, step)}`;
    if (known.get(key)) continue;
    await sql`
      select make_time_partition(${name}::regclass, ${step}, ${at.toISOString()}::timestamptz, ${options ?? null}::text)`.execute(
      services.db,
    );
    known.set(key, true);
  }
};

/**
 * Drops the partitions whose rows are all older than `oldest`. Returns their names. Dropping waits for statements that
 * read the table. It gives up after a while, so that it blocks nobody behind it, and the next run tries again.
 */
export const dropPartitions = async (ctx: Context, table: PartitionedTable, oldest: Date): Promise<string[]> => {
  const { rows } = await sql<{ name: string }>`
    select c.oid::regclass::text as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = ${table.name}::regclass
      and substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \\(''(.*)''\\)')::timestamptz <= ${oldest.toISOString()}
    order by 1`.execute(ctx.db);
  const names = rows.map(({ name }) => name);
  for (const name of names) await dropPartition(ctx, name);
  return names;
};

/**
 * Drops one partition in a transaction of its own.
 *
 * @throws Error with code 55P03 if statements in progress hold the table for longer than three seconds
 */
export const dropPartition = async (ctx: Context, name: string): Promise<void> => {
  await ctx.transaction(async (tx) => {
    await sql`set local lock_timeout = '3s'`.execute(tx.db);
    await sql`drop table ${sql.id(name)}`.execute(tx.db);
  });
  ctx.log.info({ partition: name }, 'a partition was dropped after its retention');
};

/** Returns the start of the partition, in milliseconds. The epoch began on a Thursday. */
const startOf = (at: Date, step: PartitionedTable['step']): number => {
  if (step === 'month') return Date.UTC(at.getUTCFullYear(), at.getUTCMonth());
  const ms = at.getTime();
  if (step === 'day') return ms - (ms % DAY_MS);
  const sinceMonday = (ms + 3 * DAY_MS) % WEEK_MS;
  return ms - sinceMonday;
};
