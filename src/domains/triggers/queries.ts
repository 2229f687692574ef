import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { TriggerRow } from './model.ts';

const byId: readonly SortKey<TriggerRow>[] = [{ by: sql.ref('pipeline_triggers.id'), of: ({ id }) => id }];

/** Lists the triggers of the project, oldest first. @throws DomainError as `requireAbility(admin_trigger)` */
export const listTriggers = (ctx: Context, project: ProjectRow): List<TriggerRow> => {
  requireAbility(ctx, project, 'admin_trigger');
  const query = ctx.db.selectFrom('pipeline_triggers').selectAll().where('project_id', '=', project.id);
  return listOf(ctx.db, query, byId, 'asc');
};

/** The same for many projects. The caller checks permissions. */
export const listTriggersBelow = ({ db }: Pick<Context, 'db'>): BatchedList<TriggerRow> =>
  batchedListOf(
    db,
    (projectId) => db.selectFrom('pipeline_triggers').selectAll().where('project_id', '=', projectId),
    byId,
    'asc',
  );

/** @throws DomainError as `requireAbility(admin_trigger)`, `not_found` (Trigger) */
export const getTrigger = async (ctx: Context, project: ProjectRow, id: number): Promise<TriggerRow> => {
  requireAbility(ctx, project, 'admin_trigger');
  const row = await findTrigger(ctx, id);
  if (row?.project_id !== project.id) throw notFound('Trigger');
  return row;
};

/** Returns the trigger, or null. The caller checks permissions. */
export const findTrigger = async ({ db }: Pick<Context, 'db'>, id: number): Promise<TriggerRow | null> =>
  (await db.selectFrom('pipeline_triggers').selectAll().where('id', '=', id).executeTakeFirst()) ?? null;
