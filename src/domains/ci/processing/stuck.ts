import { type RawBuilder, sql } from 'kysely';
import { servesProject } from '#domains/runners/queries.ts';
import type { Context } from '#platform/context.ts';

/**
 * Whether a job (`jobs`) is pending, and no runner that is online may take it. Runners that made contact within two hours are
 * online.
 */
export const IS_STUCK: RawBuilder<boolean> = sql<boolean>`(
  jobs.status = 'pending' and jobs.kind = 'build' and not exists (
    select from runners
    where runners.contacted_at > now() - interval '2 hours' and not runners.paused
      and (runners.token_expires_at is null or runners.token_expires_at > now())
      and jobs.tags <@ runners.tags and (runners.run_untagged or jobs.tags <> '{}')
      and (runners.access_level = 'not_protected' or jobs.protected)
      and ${servesProject(sql`jobs.project_id`)}))`;

/** Returns which of these jobs are stuck. */
export const stuckByJobIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, true>> => {
  const { rows } = await sql<{ id: number }>`
    select jobs.id from jobs where jobs.id = any (${ids}::bigint[]) and ${IS_STUCK}`.execute(db);
  return new Map(rows.map(({ id }) => [id, true]));
};

/** Returns which of these pipelines have a stuck job. */
export const stuckByPipelineIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, true>> => {
  const { rows } = await sql<{ id: number }>`
    select pipelines.id from pipelines
    where pipelines.id = any (${ids}::bigint[])
      and exists (select from jobs where jobs.pipeline_id = pipelines.id and not jobs.retried and ${IS_STUCK})`.execute(
    db,
  );
  return new Map(rows.map(({ id }) => [id, true]));
};
