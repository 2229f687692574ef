import { z } from 'zod';
import { mergeRequestsByIds } from '#domains/merge-requests/queries.ts';
import { findProject } from '#domains/projects/queries.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';
import { storeReferences } from './references.ts';

const KINDS: ReadonlySet<string> = new Set(['import.finished', 'relation_import.finished']);
const byImporter = z.object({ user_id: z.number().nullable() });

/** Reads the references of merge requests that an import has brought, since it emits no event for each. */
export const followImports = defineFollower({
  name: 'tracking.imports',
  wants: ({ kind }) => KINDS.has(kind),
  handle: async (tx, events) => {
    for (const { project_id, payload } of events) {
      const { user_id } = byImporter.parse(payload);
      if (project_id === null || user_id === null) continue;
      tx.enqueue(readImported, { project_id, user_id }, { key: `tracking.read_imported:${project_id}` });
    }
  },
});

const AT_ONCE = 100;

/**
 * The job `tracking.read_imported`: stores what the imported merge requests of a project mention and close, as far as the
 * importer sees it. The archive has the notes about mentions already.
 */
export const readImported = defineJob({
  name: 'tracking.read_imported',
  input: z.object({ project_id: z.number(), user_id: z.number() }),
  maxAttempts: 5,
  long: true,
  run: async (hub, { project_id, user_id }) => {
    const ctx = await contextFor(hub, user_id, project_id);
    const project = ctx && (await findProject(ctx, { id: project_id }));
    if (!project) return;
    for (let after = 0; ; ) {
      const rows = await ctx.db
        .selectFrom('merge_requests')
        .select('id')
        .where('project_id', '=', project_id)
        .where('imported', '=', true)
        .where('id', '>', after)
        .orderBy('id')
        .limit(AT_ONCE)
        .execute();
      const ids = rows.map(({ id }) => id);
      for (const row of (await mergeRequestsByIds(ctx, ids)).values()) {
        ctx.signal.throwIfAborted();
        await storeReferences(ctx, { kind: 'merge_request', project, row }, { isNoted: true });
      }
      if (ids.length < AT_ONCE) return;
      after = ids.at(-1) ?? after;
    }
  },
});
