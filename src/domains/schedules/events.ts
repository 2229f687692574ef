import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

/** The schedule at the time of the event, without its variables. */
const schedule = z.object({
  id: z.number(),
  project_id: z.number(),
  description: z.string(),
  ref: z.string(),
  cron: z.string(),
  cron_timezone: z.string(),
  active: z.boolean(),
  owner_id: z.number().nullable(),
  next_run_at: z.string().nullable(),
});
export type SchedulePayload = z.output<typeof schedule>;

const part = { ability: 'read_pipeline' } as const;

export const pipelineScheduleCreated = defineEvent('pipeline_schedule.created', schedule, { part });
/** Also emitted when its variables change, when its owner changes, and when it is deactivated. */
export const pipelineScheduleUpdated = defineEvent('pipeline_schedule.updated', schedule, { part });
export const pipelineScheduleDeleted = defineEvent('pipeline_schedule.deleted', schedule, { part });
