import { z } from 'zod';
import { outdatedApprovals } from '#domains/approvals/of-version.ts';
import { findProject } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { inNameOf, systemActor } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { unlessDeleted } from './locking.ts';
import { lockMergeRequest, mergeRequestsByIds } from './queries.ts';
import { headOf } from './versions/reading.ts';
import { withdraw } from './withdrawing.ts';

/**
 * The job `merge_requests.compare_closed`: after a push, removes the approvals of a closed merge request that were for
 * other changes (reference: merge-requests §5). It gets no version until it is reopened.
 */
export const compareClosed = defineJob({
  name: 'merge_requests.compare_closed',
  input: z.object({ id: z.number(), user_id: z.number().nullable() }),
  maxAttempts: 8,
  run: async (ctx, { id, user_id }) => {
    const hub = { ...ctx, actor: systemActor };
    const { git } = ctx.services;
    const row = (await mergeRequestsByIds(hub, [id])).get(id);
    const project = row?.state === 'closed' ? await findProject(hub, { id: row.project_id }) : null;
    const source = row && project && (await headOf(ctx, row));
    const start = row && project && (await git.resolve(project.disk_path, branchRef(row.target_branch)));
    // Reopening compares again.
    if (!source || !start) return;
    if (source.path !== project.disk_path) await git.copyCommit(project.disk_path, source);
    const base = await git.mergeBase(project.disk_path, [start, source.oid]);
    const outdated = await outdatedApprovals(ctx, project, row, { head: source.oid, base, start });
    if (outdated.user_ids.length === 0) return;
    await hub.transaction(async (tx) => {
      const now = await lockMergeRequest(tx, project, row).catch(unlessDeleted);
      if (now?.state !== 'closed') return;
      const pusher = inNameOf(tx, user_id ?? now.author_id);
      await withdraw(pusher, project, now, outdated.user_ids, outdated.system_action);
    });
  },
});
