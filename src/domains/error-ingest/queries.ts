import { type Selectable, sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import type { IngestFailures } from '#platform/db/tables.ts';

/** The counts of a client key in an hour. */
export interface Usage {
  readonly project_id: number;
  readonly client_key_id: number;
  readonly start: string;
  readonly events: number;
  /** Sessions and reports. */
  readonly others: number;
  /** Above a quota. */
  readonly refused: number;
  /** No envelope, or too large. */
  readonly invalid: number;
  /** Stored, but not understood. */
  readonly failed: number;
  /** Items of accepted envelopes that nothing uses, such as attachments and transactions. */
  readonly dropped: number;
}

const USAGE_HOURS = 24;

/** Returns what the keys of the project have sent in the last 24 hours, by hour. @throws `forbidden` below Maintainer */
export const listUsage = async (ctx: Context, project: ProjectRow): Promise<readonly Usage[]> => {
  requireAbility(ctx, project, 'admin_error_tracking');
  return (await usageByProjects(ctx, [project.id])).get(project.id) ?? [];
};

/** The same for many projects. The caller checks rights. */
export const usageByProjects = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly Usage[]>> => {
  const { rows } = await sql<Usage>`
    select project_id, key_id as client_key_id, date_trunc('hour', start) as start, sum(events)::bigint as events,
      sum(others)::bigint as others, sum(refused)::bigint as refused, sum(invalid)::bigint as invalid,
      sum(failed)::bigint as failed, sum(dropped)::bigint as dropped
    from ingest_counts
    where project_id = any (${ids}::bigint[])
      and start > date_trunc('hour', now()) - make_interval(hours => ${USAGE_HOURS})
    group by 1, 2, 3 order by 3, 2`.execute(db);
  return Map.groupBy(rows, ({ project_id }) => project_id);
};

/** A report that could not be digested. */
export type Failure = Pick<
  Selectable<IngestFailures>,
  'id' | 'project_id' | 'key_id' | 'event_id' | 'received_at' | 'reason'
>;

const failureColumns = ['id', 'project_id', 'key_id', 'event_id', 'received_at', 'reason'] as const;

/** Lists the reports that could not be digested, the newest first. @throws `forbidden` below Maintainer */
export const listFailures = (ctx: Context, project: ProjectRow): List<Failure> => {
  requireAbility(ctx, project, 'admin_error_tracking');
  return listOf(
    ctx.db,
    ctx.db.selectFrom('ingest_failures').select(failureColumns).where('project_id', '=', project.id),
    [{ by: sql.ref('ingest_failures.id'), of: ({ id }) => id }],
    'desc',
  );
};
