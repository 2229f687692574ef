import { sql } from 'kysely';
import { z } from 'zod';
import { findProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { DEAD_AFTER } from './options-due.ts';

/** After so many quick packings, objects that are no longer reachable are dropped too. */
const PACKINGS_PER_GC = 20;
/** When to look again at a repository that another job packs. */
const LATER_MS = 60_000;

/**
 * The job `repositories.pack`: packs the objects and refs that pushes have left, and writes the commit graph. Every
 * twentieth time, or without `quick`, it also removes objects that have been unreachable for two weeks. Only one job packs a
 * repository at a time. git replaces files atomically, so readers are not disturbed and an interrupted job starts anew.
 */
export const packRepository = defineJob({
  name: 'repositories.pack',
  input: z.object({ project_id: z.number(), quick: z.boolean().optional() }),
  maxAttempts: 3,
  long: true,
  run: async (ctx, { project_id, quick = false }) => {
    const project = await findProject(ctx, { id: project_id });
    if (!project) return;
    const packing = `${ctx.services.processId}:${project_id}`;
    if (inProgress.has(packing)) return later(ctx, project_id, quick);
    inProgress.add(packing);
    try {
      const packings = await claim(ctx, project_id);
      if (packings === null) return await later(ctx, project_id, quick);
      const isQuick = quick && packings < PACKINGS_PER_GC;
      try {
        const { git } = ctx.services;
        await (isQuick ? git.pack : git.gc)(project.disk_path, { signal: ctx.signal });
      } catch (error) {
        await release(ctx, project_id, packings);
        throw error;
      }
      await release(ctx, project_id, isQuick ? packings + 1 : 0);
    } finally {
      inProgress.delete(packing);
    }
  },
});

/** The packings that run here, as process and project. A claim of this process without one was not released. */
const inProgress = new Set<string>();

const later = (ctx: Context, project_id: number, quick: boolean): Promise<void> =>
  ctx.transaction(async (tx) => {
    const runAt = new Date(tx.clock.now().getTime() + LATER_MS);
    tx.enqueue(packRepository, { project_id, quick }, { key: packingKey(project_id, quick), runAt });
  });

/** The key of the job for a repository. */
export const packingKey = (projectId: number, quick: boolean): string =>
  `repositories.${quick ? 'pack' : 'gc'}:${projectId}`;

/**
 * Claims the repository, and returns the number of quick packings since the last thorough one. Null if another process has
 * it. A claim of this process is stale, because the caller has checked `inProgress`.
 */
const claim = async ({ db, services }: Context, projectId: number): Promise<number | null> => {
  const { rows } = await sql<{ packings_since_gc: number }>`
    insert into repository_upkeep as r (project_id, packing_process_id) values (${projectId}, ${services.processId})
    on conflict (project_id) do update set packing_process_id = excluded.packing_process_id
      where r.packing_process_id is null or r.packing_process_id = excluded.packing_process_id or not exists (
        select from hub_processes h
        where h.id = r.packing_process_id and h.seen_at > now() - ${sql.lit(DEAD_AFTER)}::interval)
    returning packings_since_gc`.execute(db);
  return rows[0]?.packings_since_gc ?? null;
};

/** Another process may have claimed the repository meanwhile, if this one seemed dead. */
const release = async ({ db, services }: Context, projectId: number, packings: number): Promise<void> => {
  await db
    .updateTable('repository_upkeep')
    .set({ packing_process_id: null, packings_since_gc: packings })
    .where('project_id', '=', projectId)
    .where('packing_process_id', '=', services.processId)
    .execute();
};
