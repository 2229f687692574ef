import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { STATUSES } from './model.ts';
import { errorBody } from './webhook.ts';

// Events about keys and settings are for maintainers only, and none carries the key.

const clientKey = z.object({ id: z.number(), project_id: z.number() });
const settings = z.object({ project_id: z.number(), active: z.boolean(), integrated: z.boolean() });

export const clientKeyCreated = defineEvent('error_tracking_client_key.created', clientKey);
/** Applications that still use the key are refused from now on. */
export const clientKeyDeleted = defineEvent('error_tracking_client_key.deleted', clientKey);
export const settingsUpdated = defineEvent('error_tracking_settings.updated', settings);

/** The error at the time of the event. */
const error = z.object({
  id: z.number(),
  project_id: z.number(),
  status: z.enum(STATUSES),
  level: z.string(),
  platform: z.string(),
  type: z.string().nullable(),
  title: z.string(),
  culprit: z.string().nullable(),
  first_seen: z.string(),
  last_seen: z.string(),
  event_count: z.number(),
  user_count: z.number(),
  first_release: z.string().nullable(),
  last_release: z.string().nullable(),
  newest_event_id: z.string(),
  assignee_id: z.number().nullable(),
  issue_id: z.number().nullable(),
  resolved_by_id: z.number().nullable(),
});
export type ErrorPayload = z.output<typeof error>;

const counted = z.object({
  project_id: z.number(),
  errors: z.array(error.pick({ id: true, event_count: true, user_count: true, first_seen: true, last_seen: true })),
});

export type CountsPayload = z.output<typeof counted>;

const part = { ability: 'read_error' } as const;
const trigger = () => 'error_tracking_events';

export const errorCreated = defineEvent('error_tracking_error.created', error, {
  trigger,
  body: errorBody('created'),
  part,
});
/** It was resolved and occurred again. */
export const errorRegressed = defineEvent('error_tracking_error.regressed', error, {
  trigger,
  body: errorBody('regressed'),
  part,
});
export const errorResolved = defineEvent('error_tracking_error.resolved', error, {
  trigger,
  body: errorBody('resolved'),
  part,
});
/** Any other change by a person, or the end of a period in which it was ignored. */
export const errorUpdated = defineEvent('error_tracking_error.updated', error, { part });
/** Its events are deleted a little later. */
export const errorDeleted = defineEvent('error_tracking_error.deleted', error, { part });
/** It became a part of another error. Its events move there a little later. */
export const errorMerged = defineEvent('error_tracking_error.merged', error.extend({ into_id: z.number() }), { part });
/** The counts of errors changed. At most one event a second and project. */
export const errorsCounted = defineEvent('error_tracking_errors.counted', counted, { part });
