import { z } from 'zod';
import { changesSchema } from '#domains/planning/changes.ts';
import { defineEvent } from '#platform/events.ts';
import { mergeRequestEventBody } from './webhook.ts';

/** The merge request at the time of the event. Hook bodies read the rest when they are made. */
const payload = z.object({
  merge_request: z.object({
    id: z.number(),
    iid: z.number(),
    project_id: z.number(),
    title: z.string(),
    state: z.string(),
    author_id: z.number().nullable(),
    assignee_ids: z.array(z.number()),
    reviewer_ids: z.array(z.number()),
  }),
  changes: changesSchema,
});
export type MergeRequestPayload = z.output<typeof payload>;

export const mergeRequestUpdated = defineEvent('merge_request.updated', payload, {
  trigger: () => 'merge_requests_events',
  body: mergeRequestEventBody('update'),
  part: { ability: 'read_merge_request' },
});
