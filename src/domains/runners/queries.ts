import { type RawBuilder, sql } from 'kysely';
import { OWNER } from '#domains/access/model.ts';
import { namespaceLevel, projectLevel } from '#domains/access/policy.ts';
import { originOf } from '#domains/tokens/origins.ts';
import type { Actor, Context } from '#platform/context.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { forbidden } from '#platform/errors.ts';
import type { RunnerRow, RunnerStatus, RunnerType } from './model.ts';

const runnerColumns = [
  'runners.id',
  'runners.runner_type',
  'runners.namespace_id',
  'runners.project_id',
  'runners.creator_id',
  'runners.token_expires_at',
  'runners.description',
  'runners.maintenance_note',
  'runners.paused',
  'runners.locked',
  'runners.run_untagged',
  'runners.tags',
  'runners.access_level',
  'runners.maximum_timeout',
  'runners.contacted_at',
  'runners.created_at',
  'runners.updated_at',
] as const;

/** Online when it made contact within two hours, stale when it made none within a week. */
const status = sql<RunnerStatus>`case
  when runners.contacted_at > now() - interval '2 hours' then 'online'
  when coalesce(runners.contacted_at, runners.created_at) <= now() - interval '7 days' then 'stale'
  when runners.contacted_at is null then 'never_contacted'
  else 'offline' end`;

/** The columns of a `RunnerRow`. */
export const runnerFields = [...runnerColumns, status.as('status'), originOf('runners')] as const;

export interface RunnerFilter {
  readonly type?: RunnerType | undefined;
  readonly status?: RunnerStatus | undefined;
  readonly paused?: boolean | undefined;
  /** Runners must have all of these tags. */
  readonly tags?: readonly string[] | undefined;
  /** Part of the description. */
  readonly search?: string | undefined;
}

/** Lists all runners, newest first. Administrators only. @throws `forbidden` */
export const listRunners = (ctx: Pick<Context, 'db' | 'actor'>, filter: RunnerFilter): List<RunnerRow> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  let query = ctx.db.selectFrom('runners').select(runnerFields);
  if (filter.type) query = query.where('runner_type', '=', filter.type);
  if (filter.status) query = query.where(sql<boolean>`${status} = ${filter.status}`);
  if (filter.paused !== undefined) query = query.where('paused', '=', filter.paused);
  if (filter.tags?.length) query = query.where(sql<boolean>`runners.tags @> ${filter.tags}::text[]`);
  if (filter.search) query = query.where('description', 'ilike', containing(filter.search));
  const byId: SortKey<RunnerRow> = { by: sql.ref('runners.id'), of: (row) => row.id };
  return listOf(ctx.db, query, [byId], 'desc');
};

/** Returns the runner, for administrators and the owners of its group or project. Null for other callers. */
export const findRunner = async (ctx: Pick<Context, 'db' | 'actor'>, id: number): Promise<RunnerRow | null> =>
  (await ctx.db
    .selectFrom('runners')
    .select(runnerFields)
    .where('runners.id', '=', id)
    .where(isOwned(ctx.actor))
    .executeTakeFirst()) ?? null;

const isOwned = (actor: Actor): RawBuilder<boolean> =>
  actor.isAdmin
    ? sql<boolean>`true`
    : sql<boolean>`(${namespaceLevel(actor, sql.ref('runners.namespace_id'))} >= ${sql.lit(OWNER)}
        or (select ${projectLevel(actor, 'p')} from projects p where p.id = runners.project_id) >= ${sql.lit(OWNER)})`;
