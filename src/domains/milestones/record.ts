import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { isExpired, milestoneWebUrl } from './model.ts';
import type { MilestoneRow } from './queries.ts';

/** A milestone, on its own and inside issues and merge requests. */
export const milestoneRecord = z
  .object({
    id: z.int(),
    iid: z.int(),
    project_id: z.int().optional(),
    group_id: z.int().optional(),
    title: z.string(),
    description: z.string().nullable(),
    state: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    due_date: z.string().nullable(),
    start_date: z.string().nullable(),
    expired: z.boolean(),
    web_url: z.string(),
  })
  .meta({ id: 'Milestone' });

export const toMilestone = (
  ctx: Pick<Context, 'services' | 'clock'>,
  milestone: MilestoneRow,
): z.output<typeof milestoneRecord> => ({
  id: milestone.id,
  iid: milestone.iid,
  ...(milestone.project_id === null ? {} : { project_id: milestone.project_id }),
  ...(milestone.namespace_id === null ? {} : { group_id: milestone.namespace_id }),
  title: milestone.title,
  description: milestone.description,
  state: milestone.state,
  created_at: isoTime(milestone.created_at),
  updated_at: isoTime(milestone.updated_at),
  due_date: milestone.due_date,
  start_date: milestone.start_date,
  expired: isExpired(ctx, milestone),
  web_url: milestoneWebUrl(ctx, milestone),
});
