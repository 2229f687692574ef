import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { z } from 'zod';
import { pipelineCreated, pipelineUpdated } from '#domains/ci/events.ts';
import { lockArtifactsOf, type PipelineRef, unlockOutdated } from '#domains/ci/locking.ts';
import { pushReceived, tagPushed } from '#domains/repositories/events.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Tx } from '#platform/context.ts';
import { AFTER_HOOKS_MS, defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';

/** The statuses in which a pipeline makes older ones of its branch or tag outdated. */
const ENDED: ReadonlySet<string> = new Set(['success', 'failed', 'canceled', 'skipped', 'manual']);

const pipelinePart = z.object({ id: z.number(), ref: z.string().nullable(), tag: z.boolean(), status: z.string() });
const pushPart = z.object({ ref: z.string(), after: z.string().nullable() });

/**
 * Locks the artifacts of each new pipeline while the settings say so, and unlocks older ones when a pipeline ends, or
 * its branch or tag is deleted.
 */
export const followLocks = defineFollower({
  name: 'artifacts.locks',
  delayMs: AFTER_HOOKS_MS,
  wants: ({ kind }) =>
    kind === pipelineCreated.kind ||
    kind === pipelineUpdated.kind ||
    kind === pushReceived.kind ||
    kind === tagPushed.kind,
  handle: async (tx, events) => {
    for (const { kind, payload, project_id } of events) {
      if (project_id === null) continue;
      if (kind === pushReceived.kind || kind === tagPushed.kind) {
        const { ref, after } = pushPart.parse(payload);
        const [, type, name = ''] = /^refs\/(heads|tags)\/(.+)$/s.exec(ref) ?? [];
        if (after === null && name !== '') enqueueUnlock(tx, { project_id, ref: name, tag: type === 'tags' }, true);
        continue;
      }
      const { id, ref, tag, status } = pipelinePart.parse(payload);
      if (kind === pipelineCreated.kind) await lock(tx, project_id, id);
      if (ref !== null && ENDED.has(status)) enqueueUnlock(tx, { project_id, ref, tag }, false);
    }
  },
});

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
