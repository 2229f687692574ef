import { sql } from 'kysely';
import { branchRef } from '#domains/repositories/model.ts';
import { matching, protectionsByProjects } from '#domains/repositories/protections.ts';
import type { Context } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';

/** The branches of a merge request as they are now. */
export interface MergeRequestBranches {
  readonly source_exists: boolean;
  readonly target_exists: boolean;
  readonly source_protected: boolean;
}

interface Named {
  readonly id: number;
  readonly project_id: number;
  readonly source_project_id: number | null;
  readonly source_branch: string;
  readonly target_branch: string;
}

/**
 * Looks at the branches of these merge requests, with one git process for each repository. The caller has checked that
 * the merge requests are visible. Whether a branch of a fork exists is part of that.
 */
export const branchesByMergeRequestIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<Map<number, MergeRequestBranches>> => {
  const rows: readonly Named[] = await ctx.db
    .selectFrom('merge_requests')
    .select(['id', 'project_id', 'source_project_id', 'source_branch', 'target_branch'])
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .execute();
  const wanted = rows.flatMap((row) => [
    { project_id: row.project_id, ref: branchRef(row.target_branch) },
    ...(row.source_project_id === null
      ? []
      : [{ project_id: row.source_project_id, ref: branchRef(row.source_branch) }]),
  ]);
  const refs = Map.groupBy(wanted, ({ project_id }) => project_id);
  const projectIds = [...refs.keys()];
  const [places, protections] = await Promise.all([
    ctx.db
      .selectFrom('projects')
      .select(['id', 'disk_path'])
      .where(sql<boolean>`id = any (${projectIds}::bigint[])`)
      .execute(),
    protectionsByProjects(ctx, projectIds),
  ]);
  const found = new Map(
    await Promise.all(
      places.map(async ({ id, disk_path }) => {
        const names = new Set(refs.get(id)?.map(({ ref }) => ref));
        return [id, await valuesOf(ctx, disk_path, [...names])] as const;
      }),
    ),
  );
  const exists = (projectId: number | null, branch: string) =>
    projectId !== null && (found.get(projectId)?.has(branchRef(branch)) ?? false);
  return new Map(
    rows.map((row) => [
      row.id,
      {
        source_exists: exists(row.source_project_id, row.source_branch),
        target_exists: exists(row.project_id, row.target_branch),
        source_protected:
          matching(protections.get(row.source_project_id ?? 0)?.branches ?? [], row.source_branch).length > 0,
      },
    ]),
  );
};

/** A repository that does not exist yet has no refs. */
const valuesOf = async (ctx: Context, path: string, refs: readonly string[]): Promise<ReadonlyMap<string, string>> => {
  try {
    return await ctx.services.git.refValues(path, refs);
  } catch (error) {
    if (error instanceof GitError && error.reason === 'missing') return new Map();
    throw error;
  }
};
