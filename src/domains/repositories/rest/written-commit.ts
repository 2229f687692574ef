import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { Commit } from '../model.ts';
import { commitRecord, toCommit } from '../record.ts';

/** A commit that was just made: no pipeline knows it yet. */
export const writtenCommitRecord = z
  .object({
    ...commitRecord.shape,
    stats: z.object({ additions: z.int(), deletions: z.int(), total: z.int() }).optional(),
    status: z.null(),
    project_id: z.int(),
    last_pipeline: z.null(),
  })
  .meta({ id: 'WrittenCommit' });

export const toWrittenCommit = async (
  ctx: Context,
  project: ProjectRow,
  commit: Commit,
  withStats: boolean,
): Promise<z.output<typeof writtenCommitRecord>> => {
  const stats = withStats ? await ctx.services.git.commitStats(project.disk_path, [commit.id]) : null;
  return {
    ...toCommit(ctx, project, commit),
    ...(stats ? { stats: stats.get(commit.id) ?? { additions: 0, deletions: 0, total: 0 } } : {}),
    status: null,
    project_id: project.id,
    last_pipeline: null,
  };
};
