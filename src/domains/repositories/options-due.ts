import { sql } from 'kysely';
import { z } from 'zod';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { type Context, type Services, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import type { RefUpdate } from './model.ts';
import { afterPush, mustBeCarriedOut, type PushOptions, pushOptionsSchema } from './push-options.ts';

// Options that must not be lost are marked as due in the transaction that records the push. The mark goes when they have
// been carried out.

/**
 * A process that was not seen for this long is dead, and so is its git process. See the 12 s in platform/process/processes.ts.
 */
export const DEAD_AFTER = '15 seconds';
/** A process that lives has failed to carry out options of this age. */
const RETRIED_AFTER = '5 minutes';
const PAGE = 100;

export const processIsDead = sql<boolean>`not exists (
  select from hub_processes h where h.id = pushes.process_id and h.seen_at > now() - ${sql.lit(DEAD_AFTER)}::interval)`;

/** The column `pushes.commands`. */
export const commandsSchema = z.array(
  z.object({ ref: z.string(), oldOid: z.string().nullable(), newOid: z.string().nullable() }),
);

interface RecordedPush {
  readonly id: number;
  readonly project: ProjectRow;
  readonly options: PushOptions;
}

/** Carries out the options of a recorded push, and returns lines for the terminal of the person who pushed. */
export const carryOut = async (
  ctx: Context,
  { id, project, options }: RecordedPush,
  updates: readonly RefUpdate[],
): Promise<readonly string[]> => {
  try {
    // The push may have changed the project, for example its default branch.
    const now = await findProject(ctx, { id: project.id });
    const messages = now && updates.length > 0 ? await afterPush(ctx, now, updates, options) : [];
    if (mustBeCarriedOut(options)) await carriedOut(ctx, id);
    return messages;
  } catch (error) {
    ctx.log.error({ err: error, push_id: id }, 'the options of a push could not be carried out');
    return mustBeCarriedOut(options) ? ['The push options could not be carried out yet. They are tried again.'] : [];
  }
};

/** Does the same for a push whose process could not. Nobody gets the messages. */
export const carryOutLate = async (services: Services, id: number): Promise<void> => {
  const row = await services.db
    .selectFrom('pushes')
    .selectAll()
    .where('id', '=', id)
    .where('options_due', '=', true)
    .executeTakeFirst();
  if (!row) return;
  const hub = createContextFactory(services)({ actor: systemActor, chainId: row.chain_id });
  const ctx = await contextFor(hub, row.user_id, row.project_id);
  const project = ctx && (await findProject(ctx, { id: row.project_id }));
  // The account was closed, or lost its access.
  if (!ctx || !project) return carriedOut(services, id);
  const moved = new Set(row.moved ?? []);
  const updates = commandsSchema.parse(row.commands).filter(({ ref }) => moved.has(ref));
  await carryOut(ctx, { id, project, options: pushOptionsSchema.parse(row.push_options) }, updates);
};

/**
 * Carries out the work that dead processes left, and work that failed. Work that fails again keeps its turn and blocks
 * no other.
 */
export const carryOutDue = async (services: Services): Promise<void> => {
  let last = 0;
  for (;;) {
    const rows = await services.db
      .selectFrom('pushes')
      .select('id')
      .where('options_due', '=', true)
      .where('id', '>', last)
      .where((where) =>
        where.or([processIsDead, sql<boolean>`created_at < now() - ${sql.lit(RETRIED_AFTER)}::interval`]),
      )
      .orderBy('id')
      .limit(PAGE)
      .execute();
    for (const { id } of rows) {
      await carryOutLate(services, id).catch((error: unknown) =>
        services.log.error({ err: error, push_id: id }, 'the options of a push could not be carried out; trying again'),
      );
      last = id;
    }
    if (rows.length < PAGE) return;
  }
};

const carriedOut = async ({ db }: Pick<Context, 'db'>, id: number): Promise<void> => {
  await db.updateTable('pushes').set({ options_due: false }).where('id', '=', id).execute();
};
