import { sql } from 'kysely';
import { z } from 'zod';
import { findProject } from '#domains/projects/queries.ts';
import { systemActor, type Tx } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';
import { mergeRequestChecked, mergeRequestMerged } from '../events.ts';
import { unlessDeleted } from '../locking.ts';
import { lockMergeRequest, mergeRequestsByIds } from '../queries.ts';
import { emitMergeRequest } from '../snapshot.ts';

/** Notifies those merge requests that wait for one that was merged. */
export const followBlocks = defineFollower({
  name: 'merge_requests.blocks',
  payloads: false,
  wants: ({ kind }) => kind === mergeRequestMerged.kind,
  handle: (tx, events) =>
    notifyBlocked(
      tx,
      events.map(({ subject_id }) => subject_id),
    ),
});

/** Notifies the merge requests that one of these blocks, after this transaction. */
export const notifyBlocked = async (tx: Tx, ids: readonly number[]): Promise<void> => {
  const blocked = await tx.db
    .selectFrom('merge_request_blocks')
    .select('blocked_id as id')
    .distinct()
    .where(sql<boolean>`blocking_id = any (${ids}::bigint[])`)
    .execute();
  enqueueUnblocked(tx, blocked);
};

/** Notifies the merge requests elsewhere that one of these projects blocks, before the projects are deleted. */
export const notifyBlockedByProjects = async (tx: Tx, projectIds: readonly number[]): Promise<void> => {
  const { rows } = await sql<{ id: number }>`
    select distinct b.blocked_id as id
    from merge_requests blocking
      join merge_request_blocks b on b.blocking_id = blocking.id
      join merge_requests blocked on blocked.id = b.blocked_id
    where blocking.project_id = any (${projectIds}::bigint[])
      and blocked.project_id <> all (${projectIds}::bigint[])`.execute(tx.db);
  enqueueUnblocked(tx, rows);
};

const enqueueUnblocked = (tx: Tx, blocked: readonly { readonly id: number }[]): void => {
  for (const { id } of blocked) tx.enqueue(emitUnblocked, { id }, { key: `merge_requests.unblocked:${id}` });
};

/** The job `merge_requests.tell_unblocked`: emits that a merge request may be mergeable now. It may run twice. */
export const emitUnblocked = defineJob({
  name: 'merge_requests.tell_unblocked',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { id }) => {
    const hub = { ...ctx, actor: systemActor };
    const row = (await mergeRequestsByIds(hub, [id])).get(id);
    const project = row && (await findProject(hub, { id: row.project_id }));
    if (!row || !project) return;
    await hub.transaction(async (tx) => {
      const now = await lockMergeRequest(tx, project, row).catch(unlessDeleted);
      if (now?.state !== 'opened') return;
      await emitMergeRequest(tx, mergeRequestChecked, project, now, {});
    });
  },
});
