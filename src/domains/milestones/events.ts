import { z } from 'zod';
import { changesSchema } from '#domains/planning/changes.ts';
import { defineEvent } from '#platform/events.ts';
import { milestoneBody } from './webhook.ts';

/** The milestone at the time of the event. */
export const milestonePayload = z.object({
  id: z.number(),
  iid: z.number(),
  title: z.string(),
  description: z.string().nullable(),
  state: z.string(),
  due_date: z.string().nullable(),
  start_date: z.string().nullable(),
  project_id: z.number().nullable(),
  group_id: z.number().nullable(),
  created_at: z.string(),
  updated_at: z.string(),
});
export type MilestonePayload = z.output<typeof milestonePayload>;

const changed = milestonePayload.extend({ changes: changesSchema });
type Changed = z.output<typeof changed>;
const trigger = () => 'milestone_events';
const part = { ability: 'read_milestone' } as const;

export const milestoneCreated = defineEvent('milestone.created', milestonePayload, {
  trigger,
  body: milestoneBody('create'),
  part,
});
export const milestoneClosed = defineEvent<Changed>('milestone.closed', changed, {
  trigger,
  body: milestoneBody('close'),
  part,
});
export const milestoneReopened = defineEvent<Changed>('milestone.reopened', changed, {
  trigger,
  body: milestoneBody('reopen'),
  part,
});
export const milestoneUpdated = defineEvent('milestone.updated', changed, { part });
export const milestoneDeleted = defineEvent('milestone.deleted', milestonePayload, {
  trigger,
  body: milestoneBody('delete'),
  part,
});
