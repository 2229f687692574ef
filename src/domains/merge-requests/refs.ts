import { sql } from 'kysely';
import { z } from 'zod';
import { findProject } from '#domains/projects/queries.ts';
import type { Tx } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';

/** The refs of the merge request with this number in its target project. */
export const headRef = (iid: number): string => `refs/merge-requests/${iid}/head`;
/** Names a merge of both branches while they merge cleanly. */
export const mergeRef = (iid: number): string => `refs/merge-requests/${iid}/merge`;

/** The job `merge_requests.remove_refs`: removes the refs of a deleted merge request. */
export const removeRefs = defineJob({
  name: 'merge_requests.remove_refs',
  input: z.object({ project_id: z.number(), iid: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { project_id, iid }) => {
    const project = await findProject(ctx, { id: project_id });
    if (!project) return;
    const { git } = ctx.services;
    const refs = await git.refValues(project.disk_path, [headRef(iid), mergeRef(iid)]);
    await git.updateRefs(
      project.disk_path,
      [...refs.keys()].map((ref) => ({ ref, newOid: null })),
    );
  },
});

/** How long a merge ref outlives its merge request (reference: merge-requests §2). */
const KEPT_MS = 14 * 86_400_000;

/** Removes the merge ref of a merge request that was just closed or merged, in two weeks. */
export const removeMergeRefLater = (tx: Tx, id: number): void => {
  const runAt = new Date(tx.clock.now().getTime() + KEPT_MS);
  tx.enqueue(removeMergeRef, { id }, { runAt, key: `merge_requests.remove_merge_ref:${id}` });
};

/** The job `merge_requests.remove_merge_ref`: removes the merge ref, unless the merge request is open again. */
export const removeMergeRef = defineJob({
  name: 'merge_requests.remove_merge_ref',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { id }) => {
    const { rows } = await sql<{ iid: number; disk_path: string }>`
      select mr.iid, p.disk_path from merge_requests mr join projects p on p.id = mr.project_id
      where mr.id = ${id} and mr.state in ('closed', 'merged')`.execute(ctx.db);
    const [found] = rows;
    if (!found) return;
    const { git } = ctx.services;
    const refs = await git.refValues(found.disk_path, [mergeRef(found.iid)]);
    await git.updateRefs(
      found.disk_path,
      [...refs.keys()].map((ref) => ({ ref, newOid: null })),
    );
  },
});
