import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { FileType } from './model.ts';

const MEBIBYTE = 1024 * 1024;

/**
 * Returns the maximum size of an artifact in bytes, or null for no limit: the lower one of the limit of its type, and
 * the limit of the project, the closest group above it that has one, or the instance.
 */
export const maxArtifactBytes = async (ctx: Context, projectId: number, type: FileType): Promise<number | null> => {
  const settings = await getSettings(ctx);
  const ofType: Partial<Record<FileType, number>> = {
    lsif: settings.ci_max_artifact_size_lsif,
    terraform: settings.ci_max_artifact_size_terraform,
    cyclonedx: settings.ci_max_artifact_size_cyclonedx,
  };
  const { rows } = await sql<{ closest: number | null }>`
    select coalesce(project.max_artifacts_size, (
      select above.max_artifacts_size from namespaces own, namespaces above
      where own.id = project.namespace_id and above.id = any (own.traversal_ids) and above.max_artifacts_size is not null
      order by array_length(above.traversal_ids, 1) desc limit 1)) as closest
    from projects project where project.id = ${projectId}`.execute(ctx.db);
  const limits = [rows[0]?.closest ?? settings.max_artifacts_size, ofType[type] ?? 0].filter((limit) => limit > 0);
  return limits.length === 0 ? null : Math.min(...limits) * MEBIBYTE;
};
