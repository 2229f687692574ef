import { sql } from 'kysely';
import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { detectLanguages } from './languages.ts';
import { branchRef } from './model.ts';
import { packingKey, packRepository } from './packing.ts';
import { findReadme } from './readme.ts';

/**
 * Updates the number of commits and the size after pushes, and when the default branch changes. Concurrent requests
 * share one job. Also schedules language detection and, after `housekeeping_optimize_repository_period` pushes, a packing.
 */
export const refreshStatistics = defineJob({
  name: 'repositories.refresh_statistics',
  input: z.object({ project_id: z.number() }),
  maxAttempts: 5,
  // It starts four git processes, and the next push may come soon.
  sharedMs: 500,
  run: async (ctx, { project_id }) => {
    const project = await findProject(ctx, { id: project_id });
    if (!project) return;
    const { git } = ctx.services;
    const ref = branchRef(project.default_branch ?? '');
    const tip = project.default_branch === null ? null : await git.resolve(project.disk_path, ref);
    const commit_count =
      tip === null ? 0 : await git.countCommits(project.disk_path, { from: tip, signal: ctx.signal });
    const repository_size = await git.diskSize(project.disk_path);
    const readme_path = await findReadme(ctx, project.disk_path, tip);
    const { housekeeping_optimize_repository_period: period } = await getSettings(ctx);
    await ctx.transaction(async (tx) => {
      if (readme_path !== project.readme_path) {
        // A concurrent push sets its own readme, and schedules this job again.
        await tx.db
          .updateTable('projects')
          .set({ readme_path, updated_at: sql`now()` })
          .where('id', '=', project_id)
          .execute();
      }
      tx.enqueue(detectLanguages, { project_id }, { key: `repositories.languages:${project_id}` });
      await tx.db
        .updateTable('project_statistics')
        .set({ commit_count, repository_size })
        .where('project_id', '=', project_id)
        .execute();
      const due = await tx.db
        .updateTable('repository_upkeep')
        .set({ pushes_since_gc: 0 })
        .where('project_id', '=', project_id)
        .where('pushes_since_gc', '>=', period)
        .returning('project_id')
        .executeTakeFirst();
      if (due) tx.enqueue(packRepository, { project_id, quick: true }, { key: packingKey(project_id, true) });
    });
  },
});

/** Updates the statistics after this transaction. */
export const refreshStatisticsLater = (tx: Tx, projectId: number): void => {
  tx.enqueue(refreshStatistics, { project_id: projectId }, { key: `repositories.statistics:${projectId}` });
};

/** Schedules a thorough packing of the repository. @throws DomainError `forbidden` */
export const scheduleHousekeeping = async (ctx: Context, project: ProjectRow): Promise<void> => {
  requireAbility(ctx, project, 'housekeeping');
  await ctx.transaction(async (tx) => {
    tx.enqueue(packRepository, { project_id: project.id }, { key: packingKey(project.id, false) });
  });
};
