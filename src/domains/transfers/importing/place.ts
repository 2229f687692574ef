import { lockNamespace } from '#domains/groups/tree.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { Superseded } from '../model.ts';
import type { ImportPlace } from './batch.ts';
import { type CreateBranch, ForkHeads, keepHead } from './fork-heads.ts';

/** Returns the project as the relations of an archive need it. `create` creates the branches of forks. */
export const placeOf = async (ctx: Context, project: ProjectRow, create: CreateBranch): Promise<ImportPlace> => ({
  project_id: project.id,
  secretKey: ctx.services.secretKey,
  creator_id: project.creator_id,
  namespace_ids: project.namespace.traversal_ids,
  maxSnippetBytes: (await getSettings(ctx)).snippet_size_limit,
  forkHeads: new ForkHeads((head) => {
    ctx.signal.throwIfAborted();
    return keepHead(ctx, project.disk_path, head, create);
  }),
});

/** Creates a branch in a project that the import has just made, and that nobody follows yet. */
export const createQuietly =
  ({ services }: Pick<Context, 'services'>, { disk_path }: ProjectRow): CreateBranch =>
  (name, newOid) =>
    services.git.updateRefs(disk_path, [{ ref: branchRef(name), newOid }]);

/**
 * Returns the place with the groups that contain the project now, and keeps it there until the transaction ends: it may
 * have been moved since the import began.
 *
 * @throws Superseded if the project is gone
 */
export const placeNow = async (tx: Tx, place: ImportPlace): Promise<ImportPlace> => {
  const project = await tx.db
    .selectFrom('projects')
    .select('namespace_id')
    .where('id', '=', place.project_id)
    .forKeyShare()
    .executeTakeFirst();
  const namespace = project && (await lockNamespace(tx, project.namespace_id));
  if (!namespace) throw new Superseded();
  return { ...place, namespace_ids: namespace.traversal_ids };
};
