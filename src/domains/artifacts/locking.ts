import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { z } from 'zod';
import { pipelineCreated, pipelineUpdated } from '#domains/ci/events.ts';
import { lockArtifactsOf, type PipelineRef, unlockOutdated } from '#domains/ci/locking.ts';
import { repositoryUpdated } from '#domains/repositories/events.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Tx } from '#platform/context.ts';
import { BOOKKEEPING_MS, defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';

/** The statuses in which a pipeline makes older ones of its branch or tag outdated. */
const ENDED: ReadonlySet<string> = new Set(['success', 'failed', 'canceled', 'skipped', 'manual']);

/**
 * Locks the artifacts of each new pipeline while the settings say so, and unlocks older ones when a pipeline ends, or
 * its branch or tag is deleted.
 */
export const followLocks = defineFollower({
  name: 'artifacts.locks',
  delayMs: BOOKKEEPING_MS,
  payloads: false,
  wants: ({ kind }) =>
    kind === pipelineCreated.kind || kind === pipelineUpdated.kind || kind === repositoryUpdated.kind,
  handle: async (tx, events) => {
    const { rows } = await sql<Changed>`
      select e.project_id, e.kind = ${pipelineCreated.kind} as is_new, said.*
      from events e cross join lateral (
        select (e.payload ->> 'id')::bigint as pipeline_id, e.payload ->> 'ref' as ref,
          (e.payload ->> 'tag')::boolean as tag, e.payload ->> 'status' as status
        where e.kind <> ${repositoryUpdated.kind}
        union all
        select null, substr(ref, 1 + length(start)), tag, null
        from jsonb_array_elements(case e.kind when ${repositoryUpdated.kind} then e.payload -> 'changes' end) change
        cross join lateral (select change ->> 'ref' as ref) named
        join (values ('refs/heads/', false), ('refs/tags/', true)) types (start, tag) on starts_with(ref, start)
        where change ->> 'after' is null
      ) said
      where e.position = any (${events.map(({ position }) => position)}::bigint[]) and e.project_id is not null
      order by e.position`.execute(tx.db);
    for (const { project_id, pipeline_id, is_new, ref, tag, status } of rows) {
      if (pipeline_id !== null && is_new) await lock(tx, project_id, pipeline_id);
      if (ref === null) continue;
      if (pipeline_id === null) enqueueUnlock(tx, { project_id, ref, tag }, true);
      else if (ENDED.has(status ?? '')) enqueueUnlock(tx, { project_id, ref, tag }, false);
    }
  },
});

/** The part of an event that is about a pipeline, or about a branch or tag that a push deleted. */
interface Changed {
  readonly project_id: number;
  readonly is_new: boolean;
  /** Null if the branch or tag is gone. */
  readonly pipeline_id: number | null;
  readonly ref: string | null;
  readonly tag: boolean;
  readonly status: string | null;
}

const lock = async (tx: Tx, projectId: number, pipelineId: number): Promise<void> => {
  if (!(await getSettings(tx)).keep_latest_artifact) return;
  const project = await tx.db
    .selectFrom('projects')
    .select('id')
    .where('id', '=', projectId)
    .where('keep_latest_artifact', '=', true)
    .executeTakeFirst();
  if (!project || !(await lockArtifactsOf(tx, pipelineId))) return;
  await setLocked(tx, [pipelineId], true);
};

const enqueueUnlock = (tx: Tx, ref: PipelineRef, all: boolean): void => {
  const input = { ...ref, all };
  tx.enqueue(unlockArtifacts, input, {
    key: `artifacts.unlock:${createHash('sha256').update(JSON.stringify(input)).digest('hex')}`,
  });
};

const BATCH = 100;

/** The job `artifacts.unlock` unlocks outdated pipelines of a branch or tag, with their artifacts, in batches. */
export const unlockArtifacts = defineJob({
  name: 'artifacts.unlock',
  input: z.object({ project_id: z.number(), ref: z.string(), tag: z.boolean(), all: z.boolean() }).strict(),
  maxAttempts: 10,
  run: async (ctx, { all, ...ref }) => {
    for (let unlocked = BATCH; unlocked === BATCH; ) {
      ctx.signal.throwIfAborted();
      unlocked = await ctx.transaction(async (tx) => {
        const ids = await unlockOutdated(tx, ref, { all, limit: BATCH });
        if (ids.length > 0) await setLocked(tx, ids, false);
        return ids.length;
      });
    }
  },
});

const setLocked = async (tx: Tx, pipelineIds: readonly number[], locked: boolean): Promise<void> => {
  await sql`
    update job_artifacts set locked = ${locked} from jobs
    where jobs.id = job_artifacts.job_id and jobs.pipeline_id = any (${[...pipelineIds]}::bigint[])
      and job_artifacts.locked <> ${locked}`.execute(tx.db);
};
