import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { groupBody } from './webhook.ts';

const parent = z.object({ id: z.number(), name: z.string(), path: z.string(), full_path: z.string() });

const group = z.object({
  id: z.number(),
  name: z.string(),
  path: z.string(),
  full_path: z.string(),
  visibility: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
  parent: parent.nullable(),
});
export type GroupPayload = z.output<typeof group>;

/** Only system hooks receive events of top-level groups. */
const trigger = (payload: GroupPayload) => (payload.parent ? 'subgroup_events' : 'group_events');

const created = group.extend({ owner_id: z.number().nullable() });

/** `owner_id` is the first member. */
export const groupCreated = defineEvent<z.output<typeof created>>('group.created', created, {
  trigger,
  body: groupBody('create'),
});

/**
 * Lists every attribute that changed. For a move these are `parent_id` and `full_path`. `previous` is absent if fewer people
 * could see it than see the event.
 */
export const groupUpdated = defineEvent(
  'group.updated',
  group.extend({ changes: z.record(z.string(), z.object({ previous: z.json().optional(), current: z.json() })) }),
);

const deleted = group.extend({
  projects: z.array(z.object({ id: z.number(), full_path: z.string(), disk_path: z.string() })),
});

/**
 * One event for each deleted group. Includes its own projects, for followers that store their files outside the
 * database.
 */
export const groupDeleted = defineEvent<z.output<typeof deleted>>('group.deleted', deleted, {
  trigger,
  body: groupBody('destroy'),
});

const marked = group.extend({ marked_for_deletion_on: z.string().nullable() });

/** The group is removed after `deletion_adjourned_period` days unless it is restored. */
export const groupMarkedForDeletion = defineEvent('group.marked_for_deletion', marked);
export const groupRestored = defineEvent('group.restored', marked);

const share = group.extend({
  shared_with: z.object({ id: z.number(), full_path: z.string() }),
  access_level: z.number(),
  expires_at: z.string().nullable(),
});

export const groupShared = defineEvent('group.shared', share);
export const groupUnshared = defineEvent('group.unshared', share);
