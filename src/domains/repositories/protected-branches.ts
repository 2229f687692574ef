import { type RawBuilder, sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type GrantedLevel, levelsOf } from './protections/levels.ts';

export interface ProtectedBranch {
  readonly id: number;
  readonly project_id: number;
  readonly name: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly allow_force_push: boolean;
  readonly code_owner_approval_required: boolean;
  readonly levels: readonly GrantedLevel[];
}

/**
 * Returns the protections of many projects by name. The caller must have `read_protected_branch` in each. Projects
 * without protections are absent.
 */
export const protectedBranchesByProjects = async (
  ctx: Context,
  projectIds: readonly number[],
): Promise<ReadonlyMap<number, readonly ProtectedBranch[]>> =>
  Map.groupBy(
    await readProtectedBranches(ctx, sql`b.project_id = any (${projectIds}::bigint[])`),
    ({ project_id }) => project_id,
  );

/** Reads protections by name. `which`: a condition over the protected branch `b`. The caller checks permissions. */
export const readProtectedBranches = async (
  ctx: Pick<Context, 'db'>,
  which: RawBuilder<unknown>,
): Promise<ProtectedBranch[]> => {
  const { rows } = await sql<ProtectedBranch>`
    select b.id, b.project_id, b.name, b.allow_force_push, b.code_owner_approval_required, b.created_at, b.updated_at,
      ${levelsOf('protected_branch_id', sql.ref('b.id'))} as levels
    from protected_branches b
    where ${which}
    order by b.name`.execute(ctx.db);
  return rows;
};
