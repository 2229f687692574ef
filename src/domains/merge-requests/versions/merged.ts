import { sql } from 'kysely';
import { z } from 'zod';
import { defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';
import { mergeRequestMerged } from '../events.ts';

/** Files deleted in one transaction. Each may hold a patch of hundreds of KiB. */
const FILES_AT_ONCE = 1_000;

/** After a merge, drops the stored files of all versions but the newest (reference: merge-requests §2). */
export const followMerges = defineFollower({
  name: 'merge_requests.merges',
  payloads: false,
  wants: ({ kind }) => kind === mergeRequestMerged.kind,
  handle: (tx, events) => {
    for (const { subject_id: id } of events) {
      tx.enqueue(dropFiles, { id }, { key: `merge_requests.drop_files:${id}` });
    }
    return Promise.resolve();
  },
});

/** The job `merge_requests.drop_files`. If it dies, the next run goes on where it stopped. */
export const dropFiles = defineJob({
  name: 'merge_requests.drop_files',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { id }) => {
    // First, so that no reader takes the files that are left for all of them.
    await ctx.db
      .updateTable('merge_request_diffs')
      .set({ state: 'without_files' })
      .where('merge_request_id', '=', id)
      .where('is_latest', '=', false)
      .where('state', '<>', 'empty')
      .execute();
    for (;;) {
      ctx.signal?.throwIfAborted();
      const { numAffectedRows = 0n } =
        await sql`delete from merge_request_diff_files where (diff_id, relative_order) in (
        select f.diff_id, f.relative_order from merge_request_diff_files f join merge_request_diffs d on d.id = f.diff_id
        where d.merge_request_id = ${id} and d.state = 'without_files' limit ${FILES_AT_ONCE})`.execute(ctx.db);
      if (numAffectedRows < FILES_AT_ONCE) break;
    }
  },
});
