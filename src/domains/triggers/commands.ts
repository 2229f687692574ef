import { sql } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { forbidden, invalid, notFound, requireUnchanged, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { pipelineTriggerCreated, pipelineTriggerDeleted, pipelineTriggerUpdated } from './events.ts';
import { MAX_DESCRIPTION, newTriggerToken, type TriggerRow } from './model.ts';
import { getTrigger } from './queries.ts';

/**
 * Creates a trigger with a new token. Its pipelines run with the rights of the caller (reference: ci §8).
 *
 * @throws DomainError as `requireAbility(admin_trigger)`, `invalid`
 */
export const createTrigger = async (ctx: Context, seen: ProjectRow, description: string): Promise<TriggerRow> => {
  requireAbility(ctx, seen, 'admin_trigger');
  check(description);
  return ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'admin_trigger', 'shared');
    const row = await tx.db
      .insertInto('pipeline_triggers')
      .values({
        project_id: project.id,
        ...newTriggerToken(tx.services.secretKey),
        description,
        owner_id: tx.actor.userId,
      })
      .returningAll()
      .executeTakeFirstOrThrow();
    emitTrigger(tx, project, pipelineTriggerCreated, row);
    return row;
  });
};

/** Changes the description. Only the owner may. @throws DomainError as `getTrigger`, `forbidden`, `invalid` */
export const updateTrigger = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  description: string | undefined,
): Promise<TriggerRow> => {
  const seen = await getTrigger(ctx, project, id);
  if (seen.owner_id !== ctx.actor.userId) throw forbidden();
  if (description === undefined) return seen;
  check(description);
  return ctx.transaction(async (tx) => {
    const row = await tx.db
      .updateTable('pipeline_triggers')
      .set({ description, updated_at: sql`now()` })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirst();
    if (!row) throw notFound('Trigger');
    emitTrigger(tx, project, pipelineTriggerUpdated, row);
    return row;
  });
};

/** @throws DomainError as `getTrigger`, `modified` */
export const deleteTrigger = async (
  ctx: Context,
  project: ProjectRow,
  id: number,
  unchangedSince: Date | null = null,
): Promise<void> => {
  await getTrigger(ctx, project, id);
  await ctx.transaction(async (tx) => {
    const row = await tx.db.deleteFrom('pipeline_triggers').where('id', '=', id).returningAll().executeTakeFirst();
    if (!row) throw notFound('Trigger');
    requireUnchanged(row, unchangedSince);
    emitTrigger(tx, project, pipelineTriggerDeleted, row);
  });
};

const emitTrigger = (
  tx: Tx,
  project: ProjectRow,
  definition: typeof pipelineTriggerCreated,
  { id, project_id, description, owner_id }: TriggerRow,
): void =>
  tx.emit(definition, {
    ...projectScope(project),
    min_access_level: MAINTAINER,
    subject: { type: 'Ci::Trigger', id },
    payload: { id, project_id, description, owner_id },
  });

/** @throws DomainError `invalid` */
const check = (description: string): void => {
  if (isLongerThan(description, MAX_DESCRIPTION)) throw invalid({ description: [tooLong(MAX_DESCRIPTION)] });
};
