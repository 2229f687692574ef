import { z } from 'zod';
import type { Tx } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import type { MergeRequestRow } from '../queries.ts';
import { refreshNow } from '../versions/refresh.ts';
import { createPipelineOfHead, pipelineRequest } from './pipelines.ts';

/** Enqueues a pipeline for the new target branch. Callers without an account get none. */
export const requestPipelineForTarget = (tx: Tx, row: Pick<MergeRequestRow, 'id' | 'diff_head_sha'>): void => {
  const request = pipelineRequest(tx, row);
  if (request) tx.enqueue(createPipelineForTarget, request);
};

/**
 * The job `merge_requests.create_target_pipeline`: stores the version against the new target branch before it creates
 * the pipeline, because the rules of the CI file read the changes of the version.
 */
export const createPipelineForTarget = defineJob({
  name: 'merge_requests.create_target_pipeline',
  input: z.object({ id: z.number(), user_id: z.number(), head: z.string(), key: z.string() }),
  maxAttempts: 8,
  run: async (hub, request, run) => {
    await refreshNow(hub, request.id);
    await createPipelineOfHead.run(hub, request, run);
  },
});
