import { text } from 'node:stream/consumers';
import type { ReadArtifact } from '#domains/ci-config/included-files.ts';
import { MAX_FILE_BYTES } from '#domains/ci-config/repository-view.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { getArchiveFile } from './archive.ts';
import { findArchive } from './queries.ts';

/** Implements `artifactReader`: later pipelines of the family get what jobs left for it, whatever its access. */
export const readerOfArtifacts =
  (ctx: Context, project: ProjectRow, pipelineId: number): ReadArtifact =>
  async (job, path) => {
    const row = await ctx.db
      .selectFrom('jobs')
      .innerJoin('job_artifacts', 'job_artifacts.job_id', 'jobs.id')
      .select('jobs.id')
      .where('jobs.project_id', '=', project.id)
      .where('jobs.pipeline_id', '=', pipelineId)
      .where('jobs.name', '=', job)
      .where('jobs.retried', '=', false)
      .where('job_artifacts.file_type', '=', 'archive')
      .executeTakeFirst();
    const archive = row && (await findArchive(ctx, project, row.id, path));
    if (!archive) return null;
    try {
      const file = await getArchiveFile(ctx, archive, path);
      if (file.size > MAX_FILE_BYTES) return { text: null };
      const content = await file.open();
      return { text: Buffer.isBuffer(content) ? content.toString() : await text(content) };
    } catch (error) {
      if (error instanceof DomainError) return { text: null };
      throw error;
    }
  };
