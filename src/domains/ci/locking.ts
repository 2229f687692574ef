import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { DANGLING_SOURCES } from './model.ts';

/** A branch or tag of a project. */
export interface PipelineRef {
  readonly project_id: number;
  readonly ref: string;
  readonly tag: boolean;
}

/** Marks a pipeline: its artifacts do not expire until it is unlocked. Returns whether it was not marked. */
export const lockArtifactsOf = async (tx: Tx, pipelineId: number): Promise<boolean> => {
  const { numUpdatedRows } = await tx.db
    .updateTable('pipelines')
    .set({ locked: true })
    .where('id', '=', pipelineId)
    .where('locked', '=', false)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
};

/**
 * Unlocks up to `limit` outdated pipelines of a branch or tag, and returns their ids: those older than the newest one
 * that ended or waits for a person, except the newest successful one with its child pipelines. With `all`, the branch or
 * tag is gone: every pipeline is outdated, also those of merge requests from the branch, whose own refs stay for ever
 * (reference: ci §6 Removal).
 */
export const unlockOutdated = async (
  tx: Tx,
  { project_id, ref, tag }: PipelineRef,
  { all, limit }: { readonly all: boolean; readonly limit: number },
): Promise<number[]> => {
  const ofRef = sql`project_id = ${project_id} and ref = ${ref} and tag = ${tag}`;
  const counts = sql`${ofRef} and source <> all (${[...DANGLING_SOURCES]}::text[])`;
  const isOutdated = all
    ? sql`(${ofRef} or (not ${tag} and merge_request_id = any (array(
        select m.id from merge_requests m where m.source_project_id = ${project_id} and m.source_branch = ${ref}))))`
    : sql`${ofRef} and id < (select id from pipelines where ${counts}
        and status in ('success', 'failed', 'canceled', 'skipped', 'manual') order by id desc limit 1)`;
  const { rows } = await sql<{ id: number }>`
    with recursive kept (id) as (
      (select id from pipelines where ${counts} and status = 'success' and not ${all} order by id desc limit 1)
      union
      select child.id from kept
        join jobs bridge on bridge.pipeline_id = kept.id and bridge.kind = 'bridge'
        join pipelines child on child.bridge_job_id = bridge.id
    ), outdated as (
      select id from pipelines where locked and ${isOutdated} and id not in (select id from kept)
      order by id limit ${limit} for no key update
    )
    update pipelines set locked = false from outdated where pipelines.id = outdated.id returning pipelines.id`.execute(
    tx.db,
  );
  return rows.map(({ id }) => id);
};
