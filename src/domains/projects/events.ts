import { z } from 'zod';
import { visibilityName } from '#domains/access/model.ts';
import { defineEvent, type EventRow } from '#platform/events.ts';
import { isoTime } from '#platform/time.ts';

const owner = z.object({ name: z.string(), email: z.string() });

/** The project as it was then: bodies stay right when it has changed since, or is gone. */
const project = z.object({
  id: z.number(),
  name: z.string(),
  path: z.string(),
  path_with_namespace: z.string(),
  namespace_id: z.number(),
  visibility_level: z.number(),
  created_at: z.string(),
  updated_at: z.string(),
  owners: z.array(owner),
});
export type ProjectPayload = z.output<typeof project>;

/** Not `z.json()`: settings hold lists and objects of our own making. */
const changes = z.record(z.string(), z.object({ previous: z.unknown(), current: z.unknown() }));

const body =
  (event_name: string) =>
  async (_ctx: unknown, _event: EventRow, payload: ProjectPayload): Promise<Record<string, unknown>> => ({
    event_name,
    created_at: isoTime(payload.created_at),
    updated_at: isoTime(payload.updated_at),
    name: payload.name,
    path: payload.path,
    path_with_namespace: payload.path_with_namespace,
    project_id: payload.id,
    project_namespace_id: payload.namespace_id,
    owners: payload.owners,
    project_visibility: visibilityName(payload.visibility_level),
  });

const trigger = () => 'project_events';

export const projectCreated = defineEvent('project.created', project, { trigger, body: body('project_create') });
export const projectUpdated = defineEvent('project.updated', project.extend({ changes }));
export const projectDeleted = defineEvent('project.deleted', project, { trigger, body: body('project_destroy') });
export const projectArchived = defineEvent('project.archived', project);
export const projectUnarchived = defineEvent('project.unarchived', project);

const star = z.object({ user_id: z.number(), star_count: z.number() });
export const projectStarred = defineEvent('project.starred', star);
export const projectUnstarred = defineEvent('project.unstarred', star);
