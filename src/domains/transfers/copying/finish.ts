import { sql } from 'kysely';
import { protectDefaultBranch } from '#domains/projects/protection.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { refreshStatisticsLater } from '#domains/repositories/upkeep.ts';
import type { Context } from '#platform/context.ts';
import { emitImport } from '../emit-progress.ts';
import { importFinished } from '../events.ts';
import { settleHead } from '../importing/repository.ts';
import type { ImportRow } from '../model.ts';
import { updateStartedImport } from '../update-import.ts';

interface Copied {
  readonly branches: number;
  /** The wanted default branch. */
  readonly defaultBranch: string | null;
}

/** Finishes an import that copied only a repository. Protects the default branch as in a new project. */
export const finishCopy = async (ctx: Context, row: ImportRow, project: ProjectRow, copied: Copied): Promise<void> => {
  const settled = await settleHead(ctx, project.disk_path, copied.defaultBranch, project.default_branch);
  await ctx.transaction(async (tx) => {
    const done = await updateStartedImport(tx, row, {
      status: 'finished',
      percentage: 100,
      finished_at: sql`now()`,
      source_url: null,
    });
    await tx.db
      .updateTable('projects')
      .set({ ...settled, empty_repo: copied.branches === 0, last_activity_at: sql`now()`, updated_at: sql`now()` })
      .where('id', '=', project.id)
      .execute();
    if (settled.default_branch !== null) await protectDefaultBranch(tx, project, settled.default_branch);
    refreshStatisticsLater(tx, project.id);
    await emitImport(tx, project, done, importFinished);
  });
};
