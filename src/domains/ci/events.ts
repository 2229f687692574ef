import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { pipelineEventBody } from './webhook.ts';

/** The pipeline at the time of the event. */
const pipeline = z.object({
  id: z.number(),
  iid: z.number(),
  name: z.string().nullable(),
  ref: z.string().nullable(),
  tag: z.boolean(),
  sha: z.string().nullable(),
  before_sha: z.string().nullable(),
  source: z.string(),
  status: z.string(),
  user_id: z.number().nullable(),
  created_at: z.string(),
  started_at: z.string().nullable(),
  finished_at: z.string().nullable(),
  duration: z.number().nullable(),
});
export type PipelinePayload = z.output<typeof pipeline>;

const part = { ability: 'read_pipeline' } as const;
const hook = { trigger: () => 'pipeline_events', body: pipelineEventBody, part };

export const pipelineCreated = defineEvent('pipeline.created', pipeline, hook);
/** The status of the pipeline changed. */
export const pipelineUpdated = defineEvent('pipeline.updated', pipeline, hook);

/** A status of a commit was reported. Hooks receive the event of its pipeline. */
export const commitStatusReported = defineEvent(
  'commit_status.reported',
  z.object({
    id: z.number(),
    name: z.string(),
    status: z.string(),
    sha: z.string(),
    ref: z.string(),
    pipeline_id: z.number(),
  }),
  { part },
);
