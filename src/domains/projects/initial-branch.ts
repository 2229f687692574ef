import { sql } from 'kysely';
import type { NamespaceRow } from '#domains/groups/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';

/**
 * Returns the name of the initial branch of new projects in the namespace: that of the group, else of the nearest group
 * above that names one, else of the instance.
 */
export const initialBranch = async (
  ctx: Context,
  { id, parent_id, traversal_ids, default_branch }: NamespaceRow,
): Promise<string> =>
  default_branch ||
  (parent_id === null ? null : await branchOfAncestors(ctx, id, traversal_ids)) ||
  (await getSettings(ctx)).default_branch_name;

const branchOfAncestors = async (ctx: Context, id: number, traversalIds: readonly number[]): Promise<string | null> => {
  const { rows } = await sql<{ default_branch: string }>`
    select default_branch from namespaces
    where id = any (${traversalIds}::bigint[]) and id <> ${id} and default_branch <> ''
    order by cardinality(traversal_ids) desc limit 1`.execute(ctx.db);
  return rows[0]?.default_branch ?? null;
};
