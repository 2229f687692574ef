import { z } from 'zod';
import { DEVELOPER } from '#domains/access/model.ts';
import { defineEvent } from '#platform/events.ts';

/** The log of a job has grown. The text is not part of the event: readers fetch it. */
export const traceAppended = defineEvent(
  'job.trace_appended',
  z.object({
    job_id: z.number(),
    /** Bytes, before and after. */
    start: z.number(),
    end: z.number(),
    debug: z.boolean(),
  }),
  { part: ({ debug }) => ({ ability: 'read_pipeline', ...(debug ? { least: DEVELOPER } : {}) }) },
);
