import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const part = { ability: 'read_pipeline' } as const;

/** A runner uploaded an artifact of a job. */
export const artifactCreated = defineEvent(
  'job_artifact.created',
  z.object({
    id: z.number(),
    job_id: z.number(),
    file_type: z.string(),
    file_format: z.string(),
    filename: z.string(),
    size: z.number(),
    expire_at: z.string().nullable(),
  }),
  { part },
);

/** Artifacts of a project were deleted, or have expired. */
export const artifactsDeleted = defineEvent(
  'job_artifacts.deleted',
  z.object({ artifacts: z.array(z.object({ id: z.number(), job_id: z.number(), file_type: z.string() })) }),
  { part },
);

/** The artifacts of a job no longer expire. */
export const artifactsKept = defineEvent('job_artifacts.kept', z.object({ job_id: z.number() }), { part });

/** The log and the artifacts of a job were erased. */
export const jobErased = defineEvent('job.erased', z.object({ job_id: z.number() }), { part });
