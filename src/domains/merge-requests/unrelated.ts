import { sql } from 'kysely';
import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { endMergeRequest } from './ending.ts';
import { areRelated } from './ends.ts';
import type { MergeRequestRow } from './queries.ts';

/**
 * The job `merge_requests.close_unrelated`: closes the open merge requests that lead from or to a project that left its
 * fork network, or its forks, and whose ends are no longer related.
 */
export const closeUnrelated = defineJob({
  name: 'merge_requests.close_unrelated',
  /** `user_id`: who ended the relation. */
  input: z.object({ project_id: z.number(), user_id: z.number().nullable() }),
  maxAttempts: 8,
  run: async (ctx, { project_id, user_id }) => {
    const { rows } = await sql<Pick<MergeRequestRow, 'id' | 'iid' | 'project_id'>>`
      with recursive tree as (
        select id from projects where id = ${project_id}
        union select p.id from projects p join tree on p.forked_from_id = tree.id
      ), crossing as (
        select mr.* from tree join merge_requests mr on mr.source_project_id = tree.id and mr.state = 'opened'
        union select mr.* from tree join merge_requests mr on mr.project_id = tree.id and mr.state = 'opened'
      )
      select crossing.id, crossing.iid, crossing.project_id from crossing
      join projects source on source.id = crossing.source_project_id
      join projects target on target.id = crossing.project_id
      where source.id <> target.id and (source.fork_network_id = target.fork_network_id) is not true
      order by crossing.id`.execute(ctx.db);
    for (const row of rows) {
      ctx.signal.throwIfAborted();
      await endMergeRequest(ctx, row, user_id, {
        isDue: async (tx, { source_project_id, project_id: id }) =>
          source_project_id !== null && !(await areRelated(tx, { id: source_project_id }, { id })),
        as: { state: 'closed', reason: 'the fork relation was removed' },
      });
    }
  },
});
