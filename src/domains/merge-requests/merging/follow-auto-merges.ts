import { sql } from 'kysely';
import { z } from 'zod';
import { findProject } from '#domains/projects/queries.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';
import { mergeabilityByIds } from '../mergeability.ts';
import { mergeDue } from '../merging.ts';
import { pipelineOfHead } from '../pipelines/pipelines.ts';
import { mayMerge } from '../policy.ts';
import { lockMergeRequest, type MergeRequestRow, mergeRequestsByIds } from '../queries.ts';
import { autoMergeOf, endAutoMerge } from './auto-merge.ts';

/** Events after which a merge request may have become mergeable start with these. */
const DECISIVE = [
  'merge_request.',
  'pipeline.',
  'note.',
  'discussion.',
  'project.updated',
  'approval',
  // Rules of code owners and groups are for protected branches.
  'protected_branch.',
  // Approvals count while their users have the right to approve.
  'member.',
];

/** Finds the merge requests with auto-merge that have become mergeable, or that wait for a time only. */
export const followAutoMerges = defineFollower({
  name: 'merge_requests.auto_merge',
  payloads: false,
  wants: ({ kind }) => DECISIVE.some((start) => kind.startsWith(start)),
  handle: async (tx, events) => {
    const projectIds = [...new Set(events.flatMap(({ project_id }) => project_id ?? []))];
    // Rules and settings of a group apply to the projects below it.
    const groupIds = events.flatMap(({ project_id, namespace_ids }) =>
      project_id === null ? (namespace_ids.at(-1) ?? []) : [],
    );
    const isBelow =
      groupIds.length === 0
        ? sql``
        : sql`or mr.project_id in (select p.id from projects p join namespaces n on n.id = p.namespace_id
            where n.traversal_ids && ${groupIds}::bigint[])`;
    // A pipeline may run in the source project.
    const { rows } = await sql<{ id: number; merge_after: string | null }>`
      select mr.id, mr.merge_after from merge_requests mr
      where mr.merge_when_pipeline_succeeds and mr.state = 'opened'
        and (mr.project_id = any (${projectIds}::bigint[]) or mr.source_project_id = any (${projectIds}::bigint[]) ${isBelow})
      order by mr.id`.execute(tx.db);
    await enqueueDue(tx, rows);
  },
});

/** Enqueues the merge of those that are mergeable, or that wait for a time only. */
const enqueueDue = async (
  tx: Tx,
  rows: readonly { readonly id: number; readonly merge_after: string | null }[],
): Promise<void> => {
  const mergeability = await mergeabilityByIds(
    tx,
    rows.map(({ id }) => id),
  );
  for (const { id, merge_after } of rows) {
    const status = mergeability.get(id)?.detailed_merge_status;
    const isDue = status === 'mergeable';
    if (!isDue && status !== 'merge_time') continue;
    const runAt = isDue || merge_after === null ? {} : { runAt: new Date(merge_after) };
    tx.enqueue(autoMerge, { id }, { key: `merge_requests.auto_merge:${id}`, ...runAt });
  }
};

const SWEPT_AT_ONCE = 100;

/**
 * The job `merge_requests.sweep_auto_merges`: finds what the follower cannot. Users that are blocked or unblocked, and
 * members of groups that approval rules name, change who may approve, but their events name no project.
 */
export const sweepAutoMerges = defineJob({
  name: 'merge_requests.sweep_auto_merges',
  input: z.object({}),
  maxAttempts: 1,
  cron: '*/5 * * * *',
  run: async (hub) => {
    for (let last = 0; !hub.signal.aborted; ) {
      const { rows } = await sql<{ id: number; merge_after: string | null }>`
        select id, merge_after from merge_requests
        where merge_when_pipeline_succeeds and state = 'opened' and id > ${last}
        order by id limit ${SWEPT_AT_ONCE}`.execute(hub.db);
      if (rows.length > 0) await hub.transaction((tx) => enqueueDue(tx, rows));
      if (rows.length < SWEPT_AT_ONCE) return;
      last = rows.at(-1)?.id ?? last;
    }
  },
});

/** The job `merge_requests.auto_merge`: merges as the person who has set auto-merge, if nothing is in the way now. */
export const autoMerge = defineJob({
  name: 'merge_requests.auto_merge',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (hub, { id }) => {
    const row = (await mergeRequestsByIds(hub, [id])).get(id);
    if (row?.state !== 'opened' || !row.merge_when_pipeline_succeeds) return;
    // Until it is there, nothing shows that there is a pipeline to wait for.
    await pipelineOfHead(hub, row);
    const status = (await mergeabilityByIds(hub, [id])).get(id)?.detailed_merge_status;
    // Jobs start by the clock of the database, which may be ahead.
    if (status === 'merge_time') return waitForTime(hub, row);
    if (status !== 'mergeable') return;
    const merge = autoMergeOf(row);
    const ctx = await contextFor(hub, row.merge_user_id, row.project_id);
    const project = ctx && (await findProject(ctx, { id: row.project_id }));
    if (!ctx || !project || !(await mayMerge(ctx, project, row.target_branch))) {
      return end(hub, row, 'the person who set it may not merge any more');
    }
    if (!merge || merge.sha !== row.diff_head_sha) return end(hub, row, 'the source branch was updated');
    try {
      await mergeDue(ctx, project, row, merge);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      const now = (await mergeRequestsByIds(hub, [id])).get(id);
      // It would fail again.
      if (now?.merge_error) return end(hub, now, 'the merge failed');
      // An event follows when that is no longer in the way.
      if ((await mergeabilityByIds(hub, [id])).get(id)?.detailed_merge_status !== 'mergeable') return;
      throw error;
    }
  },
});

/** The least time until the job looks at the clock again. */
const LOOK_AGAIN_MS = 1_000;

const waitForTime = (hub: Context, { id, merge_after }: MergeRequestRow): Promise<void> =>
  hub.transaction(async (tx) => {
    const soon = tx.clock.now().getTime() + LOOK_AGAIN_MS;
    const runAt = new Date(Math.max(soon, merge_after === null ? 0 : new Date(merge_after).getTime()));
    tx.enqueue(autoMerge, { id }, { key: `merge_requests.auto_merge:${id}`, runAt });
  });

const end = async (ctx: Context, row: MergeRequestRow, reason: string): Promise<void> => {
  const asHub = { ...ctx, actor: systemActor };
  const project = await findProject(asHub, { id: row.project_id });
  if (!project) return;
  await asHub.transaction(async (tx) => {
    const now = await lockMergeRequest(tx, project, row);
    if (now.state === 'opened') await endAutoMerge(tx, project, now, reason);
  });
};
