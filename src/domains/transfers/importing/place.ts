import type { ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { ImportPlace } from './batch.ts';
import { keepHead } from './fork-heads.ts';

/** Returns the project as the relations of an archive need it. */
export const placeOf = async (ctx: Context, project: ProjectRow): Promise<ImportPlace> => ({
  project_id: project.id,
  secretKey: ctx.services.secretKey,
  creator_id: project.creator_id,
  namespace_ids: project.namespace.traversal_ids,
  maxSnippetBytes: (await getSettings(ctx)).snippet_size_limit,
  keepHead: (head) => keepHead(ctx, project.disk_path, head),
});
