import { sql } from 'kysely';
import { getProject } from '#domains/projects/queries.ts';
import { tagPushed } from '#domains/repositories/events.ts';
import { inNameOf } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { removeRelease } from './commands.ts';
import { releaseCreated } from './events.ts';
import { getRelease } from './queries.ts';

/** Deletes the release of a tag that was deleted by a push or over the API. */
export const removeOfDeletedTags = defineFollower({
  name: 'releases.tags',
  payloads: false,
  wants: ({ kind }) => kind === tagPushed.kind,
  handle: async (tx, events) => {
    const positions = events.map(({ position }) => position);
    // A release that was created later belongs to a new tag of the same name. It stays.
    const { rows } = await sql<{ project_id: number; tag: string; actor_id: number | null }>`
      select distinct on (releases.id) releases.project_id, releases.tag, events.actor_id from events
      join releases on releases.project_id = events.project_id and 'refs/tags/' || releases.tag = events.payload ->> 'ref'
      where events.position = any (${positions}::bigint[]) and events.payload ->> 'after' is null 
        and not exists (
          select from events later where later.kind = ${releaseCreated.kind}
            and later.subject_type = 'Release' and later.subject_id = releases.id and later.position > events.position)
        and not exists (
          select from events pending where pending.kind = ${releaseCreated.kind}
            and pending.position is null and pending.subject_id = releases.id and pending.id > events.id)
      order by releases.id, events.position`.execute(tx.db);
    for (const { project_id, tag, actor_id } of rows) {
      const project = await getProject(tx, { id: project_id });
      await removeRelease(inNameOf(tx, actor_id), project, await getRelease(tx, project, tag));
    }
  },
});
