import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { jobEventBody, pipelineEventBody } from './webhook.ts';

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
/** The name of the pipeline changed. */
export const pipelineRenamed = defineEvent('pipeline.renamed', pipeline, { part });
export const pipelineDeleted = defineEvent('pipeline.deleted', z.object({ id: z.number() }), { part });

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

/** A job or bridge at the time of the event. */
const job = z.object({
  id: z.number(),
  pipeline_id: z.number(),
  kind: z.string(),
  name: z.string(),
  stage: z.string().nullable(),
  status: z.string(),
  ref: z.string().nullable(),
  tag: z.boolean(),
  allow_failure: z.boolean(),
  /** The tags that a runner must have, and whether it may be one for protected branches and tags. */
  tags: z.array(z.string()),
  protected: z.boolean(),
  failure_reason: z.string().nullable(),
  environment: z.string().nullable(),
  coverage: z.number().nullable(),
  user_id: z.number().nullable(),
  runner_id: z.number().nullable(),
  created_at: z.string(),
  queued_at: z.string().nullable(),
  started_at: z.string().nullable(),
  finished_at: z.string().nullable(),
});
export type JobPayload = z.output<typeof job>;

/** Hooks get no events of bridges, nor of jobs that only wait (reference: ci §10). */
const HOOKED_STATUSES: ReadonlySet<string> = new Set([
  'created',
  'pending',
  'running',
  'success',
  'failed',
  'canceled',
]);

const jobHook = {
  trigger: ({ kind, status }: JobPayload) => (kind === 'build' && HOOKED_STATUSES.has(status) ? 'job_events' : null),
  body: jobEventBody,
  part,
};

export const jobCreated = defineEvent('job.created', job, jobHook);
/** The status of the job changed. */
export const jobUpdated = defineEvent('job.updated', job, jobHook);

/** The list of projects and groups whose jobs may use their token in the project changed. For maintainers. */
export const jobTokenScopeChanged = defineEvent(
  'job_token_scope.changed',
  z.object({ change: z.enum(['added', 'removed']), admitted: z.enum(['project', 'group']), id: z.number() }),
);
