import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { releaseEventBody } from './webhook.ts';

/** The release at the time of the event. */
const release = z.object({
  id: z.number(),
  project_id: z.number(),
  project_path: z.string(),
  tag: z.string(),
  name: z.string().nullable(),
  description: z.string().nullable(),
  sha: z.string().nullable(),
  author_id: z.number().nullable(),
  released_at: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
  links: z.array(z.object({ id: z.number(), name: z.string(), url: z.string(), link_type: z.string() })),
});
export type ReleasePayload = z.output<typeof release>;

const trigger = () => 'releases_events';
const part = { ability: 'read_release' } as const;

export const releaseCreated = defineEvent('release.created', release, {
  trigger,
  body: releaseEventBody('create'),
  part,
});
/** Also emitted when one of its links or milestones changed. */
export const releaseUpdated = defineEvent('release.updated', release, {
  trigger,
  body: releaseEventBody('update'),
  part,
});
export const releaseDeleted = defineEvent('release.deleted', release, {
  trigger,
  body: releaseEventBody('delete'),
  part,
});
