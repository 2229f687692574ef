import { sql } from 'kysely';
import { defineFollower } from '#platform/event-log/followers.ts';
import { isoTime } from '#platform/time.ts';
import { cancelChild, followDownstream, startBridge } from './bridges.ts';
import { jobCreated, jobUpdated, pipelineCreated, pipelineUpdated } from './events.ts';
import { assignResource, dropPipelineRefs, startDelayedJob } from './jobs.ts';
import { CANCELABLE } from './processing/rows.ts';

/**
 * Starts what follows outside of the pipeline from the new status of a job: a timer, the next job of a resource group,
 * or the pipeline of a bridge.
 */
export const followJobs = defineFollower({
  name: 'ci.jobs',
  payloads: false,
  wants: ({ kind }) => kind === jobUpdated.kind || kind === jobCreated.kind,
  handle: async (tx, events) => {
    const { rows } = await sql<{
      id: number;
      kind: string;
      status: string;
      resource_group_id: number | null;
      scheduled_at: string | null;
    }>`
      select id, kind, status, resource_group_id, scheduled_at from jobs
      where id = any (${idsOf(events)}::bigint[])
        and (resource_group_id is not null or status = 'scheduled' or kind = 'bridge')`.execute(tx.db);
    for (const { id, kind, status, scheduled_at } of rows) {
      if (status === 'scheduled' && scheduled_at !== null) {
        tx.enqueue(startDelayedJob, { id }, { runAt: new Date(isoTime(scheduled_at)), key: `ci.start:${id}` });
      }
      if (kind === 'bridge' && status === 'pending') tx.enqueue(startBridge, { id }, { key: `ci.bridge:${id}` });
    }
    for (const id of new Set(rows.flatMap((row) => row.resource_group_id ?? []))) {
      tx.enqueue(assignResource, { id }, { key: `ci.resource:${id}` });
    }
    const canceled = rows.flatMap(({ id, kind, status }) => (kind === 'bridge' && status === 'canceled' ? id : []));
    if (canceled.length === 0) return;
    const children = await sql<{ id: number }>`
      select child.id from pipelines child
      where child.bridge_job_id = any (${canceled}::bigint[]) and child.source = 'parent_pipeline'`.execute(tx.db);
    for (const { id } of children.rows) tx.enqueue(cancelChild, { id }, { key: `ci.cancel:${id}` });
  },
});

/** Starts what follows from the new status of a pipeline: its bridge, its children, and the end of its ref. */
export const followPipelines = defineFollower({
  name: 'ci.pipelines',
  payloads: false,
  wants: ({ kind }) => kind === pipelineUpdated.kind || kind === pipelineCreated.kind,
  handle: async (tx, events) => {
    const ids = idsOf(events);
    const { rows } = await sql<{ id: number; project_id: number; bridge_job_id: number | null; is_over: boolean }>`
      select id, project_id, bridge_job_id, status in ('success', 'failed', 'canceled', 'skipped') as is_over
      from pipelines where id = any (${ids}::bigint[])`.execute(tx.db);
    for (const { id, bridge_job_id } of rows) {
      if (bridge_job_id !== null) tx.enqueue(followDownstream, { id }, { key: `ci.downstream:${id}` });
    }
    for (const [project_id, over] of Map.groupBy(
      rows.filter(({ is_over }) => is_over),
      (row) => row.project_id,
    )) {
      tx.enqueue(dropPipelineRefs, { project_id, ids: over.map(({ id }) => id) });
    }
    const children = await sql<{ id: number }>`
      select child.id from pipelines parent
      join jobs bridge on bridge.pipeline_id = parent.id and bridge.kind = 'bridge'
      join pipelines child on child.bridge_job_id = bridge.id and child.project_id = parent.project_id
      where parent.id = any (${ids}::bigint[]) and parent.status in ('canceled', 'canceling')
        and child.status = any (${CANCELABLE}::text[])`.execute(tx.db);
    for (const { id } of children.rows) tx.enqueue(cancelChild, { id }, { key: `ci.cancel:${id}` });
  },
});

const idsOf = (events: readonly { readonly subject_id: number }[]): number[] => [
  ...new Set(events.map(({ subject_id }) => subject_id)),
];
