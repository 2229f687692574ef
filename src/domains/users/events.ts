import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { projectBody, projectPayload } from './project-payload.ts';

const user = z.object({ id: z.number(), username: z.string(), name: z.string(), state: z.string() });

const value = z.union([z.string(), z.number(), z.boolean(), z.null()]);

export const userCreated = defineEvent('user.created', user);

/** Names every attribute that changed. A new password is said to have changed, never what it is. */
export const userUpdated = defineEvent(
  'user.updated',
  user.extend({ changes: z.record(z.string(), z.object({ previous: value, current: value })) }),
);

/** With the projects that went with the personal namespace, for whoever keeps something of theirs outside the database. */
export const userDeleted = defineEvent(
  'user.deleted',
  user.extend({
    namespace_id: z.number().nullable(),
    projects: z.array(z.object({ id: z.number(), full_path: z.string(), disk_path: z.string() })),
  }),
);

/** One for each project that went, on its own or with its user or group: so it is defined where all of them reach it. */
export const projectDeleted = defineEvent('project.deleted', projectPayload, {
  trigger: () => 'project_events',
  body: projectBody('project_destroy'),
});
