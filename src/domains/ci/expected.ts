import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { repositoryUpdated } from '#domains/repositories/events.ts';
import { untilRecorded } from '#domains/repositories/pushes.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { isUnhandled } from '#platform/event-log/followers.ts';
import { findQueuedInputs } from '#platform/job-runner/queue.ts';
import { createForPush, findPushed, followPushes } from './creation/pushes.ts';

/**
 * Creates the pipelines that a push of this commit to the ref is about to get, for a caller who does not wait for the
 * follower and its jobs.
 */
export const createPipelinesOfPush = async (
  ctx: Context,
  { id: project_id }: Pick<ProjectRow, 'id'>,
  { ref, after }: { readonly ref: string; readonly after: string },
): Promise<void> => {
  await untilRecorded(ctx, { id: project_id }, ref);
  // The follower comes first, because it hands over to the jobs.
  const pushed = await findPushed(
    ctx,
    sql`events.kind = ${repositoryUpdated.kind} and events.project_id = ${project_id} and ${isUnhandled(followPushes)}`,
  );
  const queued = await findQueuedInputs(ctx.db, createForPush, { project_id, ref, after });
  const coming = pushed.map(({ input }) => input).filter((input) => input.ref === ref && input.after === after);
  const hub = { ...ctx, actor: systemActor };
  // The keys of the pipelines keep the jobs from creating second ones.
  for (const input of [...coming, ...queued]) await createForPush.run(hub, input, { attempt: 1, lastAttempt: false });
};
