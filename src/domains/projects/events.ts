import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { projectBody, projectPayload } from './payload.ts';

/**
 * Not `z.json()`, because our own settings hold lists and objects. `previous` is absent if it was visible to fewer people
 * than the event is.
 */
const changes = z.record(z.string(), z.object({ previous: z.unknown().optional(), current: z.unknown() }));

export const projectCreated = defineEvent('project.created', projectPayload, {
  trigger: () => 'project_events',
  body: projectBody('project_create'),
});
/** Also emitted for each project that is deleted with its user or group. */
export const projectDeleted = defineEvent('project.deleted', projectPayload, {
  trigger: () => 'project_events',
  body: projectBody('project_destroy'),
});
export const projectUpdated = defineEvent('project.updated', projectPayload.extend({ changes }));
/** The project moved to another namespace. Its path changed too. */
export const projectTransferred = defineEvent('project.transferred', projectPayload.extend({ changes }));
export const projectArchived = defineEvent('project.archived', projectPayload);
export const projectUnarchived = defineEvent('project.unarchived', projectPayload);

const marked = projectPayload.extend({ marked_for_deletion_on: z.string().nullable() });

/** The project is removed after `deletion_adjourned_period` days unless it is restored. */
export const projectMarkedForDeletion = defineEvent('project.marked_for_deletion', marked);
export const projectRestored = defineEvent('project.restored', marked);

/**
 * Everyone who can see the source project sees the event. The fork is included only for readers who can see the fork.
 */
export const projectForked = defineEvent(
  'project.forked',
  z.object({
    user_id: z.number().nullable(),
    forks_count: z.number(),
    fork: z.object({ id: z.number(), path_with_namespace: z.string() }).nullable(),
  }),
  {
    part: ({ fork }) => fork && { ability: 'read_project', subject: { type: 'Project', id: fork.id } },
  },
);

const star = z.object({ user_id: z.number(), star_count: z.number() });
export const projectStarred = defineEvent('project.starred', star);
export const projectUnstarred = defineEvent('project.unstarred', star);
