import { z } from 'zod';
import { projectBody, projectPayload } from '#domains/users/project-payload.ts';
import { defineEvent } from '#platform/events.ts';

/** Not `z.json()`: settings hold lists and objects of our own making. */
const changes = z.record(z.string(), z.object({ previous: z.unknown(), current: z.unknown() }));

export const projectCreated = defineEvent('project.created', projectPayload, {
  trigger: () => 'project_events',
  body: projectBody('project_create'),
});
export const projectUpdated = defineEvent('project.updated', projectPayload.extend({ changes }));
/** It went to another namespace: its path changed with it. */
export const projectTransferred = defineEvent('project.transferred', projectPayload.extend({ changes }));
export const projectArchived = defineEvent('project.archived', projectPayload);
export const projectUnarchived = defineEvent('project.unarchived', projectPayload);

const marked = projectPayload.extend({ marked_for_deletion_on: z.string().nullable() });

/** It goes when the days of `deletion_adjourned_period` are over, unless it is restored. */
export const projectMarkedForDeletion = defineEvent('project.marked_for_deletion', marked);
export const projectRestored = defineEvent('project.restored', marked);

/** For whoever sees the project that was forked: which fork it is only where that shows itself to them as well. */
export const projectForked = defineEvent(
  'project.forked',
  z.object({
    user_id: z.number().nullable(),
    forks_count: z.number(),
    fork: z.object({ id: z.number(), path_with_namespace: z.string() }).nullable(),
  }),
);

const star = z.object({ user_id: z.number(), star_count: z.number() });
export const projectStarred = defineEvent('project.starred', star);
export const projectUnstarred = defineEvent('project.unstarred', star);
