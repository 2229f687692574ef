import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { z } from 'zod';
import type { Context, Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';

// The former name of a topic stands for the topic, or for nothing if it was deleted, until no project has that name.
// Projects are updated in batches, so that none of them is locked for long (migration 0039).

/**
 * Takes the lock on topics until the transaction ends. Waits for transactions that are assigning topics to projects.
 */
export const lockTopics = async (tx: Tx): Promise<void> => {
  await sql`select pg_advisory_xact_lock(hashtextextended('millrace:topics', 0))`.execute(tx.db);
};

/** Replaces the name by the topic in all projects, or removes it if the topic is null. */
export const moveFrom = async (tx: Tx, former_name: string, topic_id: number | null): Promise<void> => {
  await tx.db
    .insertInto('topic_moves')
    .values({ former_name, topic_id })
    .onConflict((on) => on.column('former_name').doUpdateSet({ topic_id }))
    .execute();
  tx.enqueue(moveProjects, {}, { key: moveProjects.name });
};

/**
 * Reserves a name for the topic, unless projects still have it as the former name of another. @throws DomainError
 * `invalid`
 */
export const takeName = async (tx: Tx, id: number, name: string): Promise<void> => {
  await tx.db.deleteFrom('topic_moves').where('former_name', '=', name).where('topic_id', '=', id).execute();
  const { rows } = await sql`
    select from topic_moves where lower(former_name) = lower(${name}) and topic_id is distinct from ${id}`.execute(
    tx.db,
  );
  if (rows.length > 0) throw invalid({ name: ['has already been taken'] });
};

/** The job `topics.move_projects` updates projects after topics change. It resumes where the last run stopped. */
export const moveProjects = defineJob({
  name: 'topics.move_projects',
  input: z.object({}).strict(),
  maxAttempts: 25,
  long: true,
  run: (ctx) => carryOutMoves(ctx),
});

const AT_ONCE = 500;
const PAUSE_MS = 1_000;
/** The number of projects that are updated while the caller waits. */
const FEW = 1_000;

/** Updates a small number of projects at once. The job handles the rest. */
export const carryOutFew = (ctx: Context): Promise<void> => carryOutMoves(ctx, FEW);

const carryOutMoves = async (ctx: Context, atMost?: number): Promise<void> => {
  const moves = await ctx.db.selectFrom('topic_moves').select(['id', 'former_name']).orderBy('id').execute();
  for (const move of moves) {
    for (;;) {
      const carrying = await carriers(ctx, move.former_name, atMost);
      if (atMost !== undefined && carrying.length > atMost) break;
      let moved = 0;
      for (let from = 0; from < carrying.length; from += AT_ONCE) {
        ctx.signal.throwIfAborted();
        moved += await ctx.transaction((tx) => moveSome(tx, move.id, carrying.slice(from, from + AT_ONCE)));
      }
      if (await ctx.transaction((tx) => endMove(tx, move.id))) break;
      // Other transactions are writing to the remaining projects.
      if (atMost !== undefined) break;
      if (moved === 0) await sleep(PAUSE_MS, undefined, { signal: ctx.signal });
    }
  }
};

const carriers = async ({ db }: Context, name: string, atMost?: number): Promise<number[]> => {
  const limit = atMost === undefined ? sql`` : sql`limit ${atMost + 1}`;
  const { rows } = await sql<{ id: number }>`
    select id from projects where topics @> array[${name}::text] order by id ${limit}`.execute(db);
  return rows.map(({ id }) => id);
};

/**
 * Updates one batch and returns its size. `updated_at` changes too, as the records change. Skips projects that are
 * locked by others until another round, so that one busy project does not delay the rest.
 */
const moveSome = async (tx: Tx, moveId: number, ids: readonly number[]): Promise<number> => {
  await sql`select lock_topics()`.execute(tx.db);
  const { numAffectedRows } = await sql`
    with move as (
      select m.former_name, t.name from topic_moves m left join topics t on t.id = m.topic_id where m.id = ${moveId}
    ), carrying as (
      select projects.id from projects, move
      where projects.id = any (${ids}::bigint[]) and topics @> array[move.former_name]
      order by projects.id for no key update of projects skip locked
    )
    update projects set updated_at = now(),
      topics = case when move.name is null then array_remove(topics, move.former_name)
                    else array_replace(topics, move.former_name, move.name) end
    from carrying, move where projects.id = carrying.id`.execute(tx.db);
  return Number(numAffectedRows ?? 0);
};

/** Returns true if no project has the name any more. The name is then free. */
const endMove = async (tx: Tx, moveId: number): Promise<boolean> => {
  await lockTopics(tx);
  const { rows } = await sql<{ left: boolean }>`
    select exists (select from projects where topics @> array[m.former_name]) as left
    from topic_moves m where m.id = ${moveId}`.execute(tx.db);
  if (rows[0]?.left) return false;
  await tx.db.deleteFrom('topic_moves').where('id', '=', moveId).execute();
  return true;
};
