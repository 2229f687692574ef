import { type RawBuilder, type Selectable, sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { compare } from '#domains/repositories/compare.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { MergeRequestDiffCommits, MergeRequestDiffFiles, MergeRequestDiffs } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { Diff } from '#platform/git/reading.ts';
import type { MergeRequestRow } from '../queries.ts';

// Reads the versions of merge requests, with their commits and files.

export type MergeRequestDiffRow = Selectable<MergeRequestDiffs>;
export type DiffFileRow = Selectable<MergeRequestDiffFiles>;
export type DiffCommitRow = Selectable<MergeRequestDiffCommits>;

export interface DiffStat {
  readonly diff_id: number;
  readonly path: string;
  readonly additions: number;
  readonly deletions: number;
}

/** Returns the newest diff version of each merge request, by id. */
export const diffsByMergeRequestIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, MergeRequestDiffRow>> => {
  const rows = await ctx.db
    .selectFrom('merge_request_diffs')
    .selectAll()
    .where(sql<boolean>`merge_request_id = any (${ids}::bigint[])`)
    .where('is_latest', '=', true)
    .execute();
  return new Map(rows.map((row) => [row.merge_request_id, row]));
};

/** Lists the versions of a merge request, newest first. `getMergeRequest` has checked access. */
export const listVersions = (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestRow, 'id'>,
): List<MergeRequestDiffRow> =>
  listOf(
    ctx.db,
    ctx.db.selectFrom('merge_request_diffs').selectAll().where('merge_request_id', '=', id),
    BY_VERSION,
    'desc',
  );

/** Returns a version of the merge request. @throws DomainError `not_found` */
export const getVersion = async (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestRow, 'id'>,
  versionId: number,
): Promise<MergeRequestDiffRow> => {
  const row = await ctx.db
    .selectFrom('merge_request_diffs')
    .selectAll()
    .where('id', '=', versionId)
    .where('merge_request_id', '=', id)
    .executeTakeFirst();
  if (!row) throw notFound();
  return row;
};

export const listVersionFiles = (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestDiffRow, 'id'>,
): List<DiffFileRow> =>
  listOf(
    ctx.db,
    ctx.db.selectFrom('merge_request_diff_files').selectAll().where('diff_id', '=', id),
    FILE_ORDER,
    'asc',
  );

export const listVersionCommits = (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestDiffRow, 'id'>,
): List<DiffCommitRow> =>
  listOf(
    ctx.db,
    ctx.db.selectFrom('merge_request_diff_commits').selectAll().where('diff_id', '=', id),
    COMMIT_ORDER,
    'asc',
  );

/** Lists the changed files in the order of the diff. `getMergeRequest` has checked access. */
export const listDiffFiles = (ctx: Pick<Context, 'db'>, { id }: Pick<MergeRequestRow, 'id'>): List<DiffFileRow> =>
  listOf(ctx.db, ctx.db.selectFrom('merge_request_diff_files').selectAll().where(diffOf(id)), FILE_ORDER, 'asc');

/**
 * Computes the changes between two commits of a merge request from the repository. Returns null if one of them is not
 * there, as for an imported merge request whose branches were deleted. @throws DomainError as `requireAbility(read_code)`
 */
export const findRawDiff = async (
  ctx: Context,
  project: ProjectRow,
  { base_sha, head_sha }: { readonly base_sha: string | null; readonly head_sha: string | null },
): Promise<Diff | null> => {
  if (base_sha === null || head_sha === null) return null;
  const { git } = ctx.services;
  for (const sha of [base_sha, head_sha]) if ((await git.resolveCommit(project.disk_path, sha)) === null) return null;
  return (await compare(ctx, project, { from: base_sha, to: head_sha, straight: true })).diff;
};

/** Lists the commits to be merged, newest first. */
export const listDiffCommits = (ctx: Pick<Context, 'db'>, { id }: Pick<MergeRequestRow, 'id'>): List<DiffCommitRow> =>
  listOf(ctx.db, ctx.db.selectFrom('merge_request_diff_commits').selectAll().where(diffOf(id)), COMMIT_ORDER, 'asc');

/** Returns the commits to be merged without merges, newest first. A version lists at most a thousand commits. */
export const listDiffCommitsWithoutMerges = async (
  ctx: Pick<Context, 'db' | 'services'>,
  { disk_path }: Pick<ProjectRow, 'disk_path'>,
  row: Pick<MergeRequestRow, 'id'>,
): Promise<readonly DiffCommitRow[]> => {
  const listed = await listDiffCommits(ctx, row).rows({ limit: MAX_COMMITS });
  const read = await ctx.services.git.readCommits(
    disk_path,
    // Imported rows may hold any text.
    listed.flatMap(({ sha }) => (/^[0-9a-f]{40}$/.test(sha) ? [sha] : [])),
  );
  const merges = new Set(read.flatMap(({ id, parent_ids }) => (parent_ids.length > 1 ? [id] : [])));
  return listed.filter(({ sha }) => !merges.has(sha));
};

const MAX_COMMITS = 1_000;

/** The same as `listDiffCommits` for many merge requests at once. */
export const listDiffCommitsBelow = (ctx: Pick<Context, 'db'>): BatchedList<DiffCommitRow> =>
  batchedListOf(
    ctx.db,
    (id) => ctx.db.selectFrom('merge_request_diff_commits').selectAll().where(diffOf(id)),
    COMMIT_ORDER,
    'asc',
  );

/** Returns the number of added and removed lines per file of these diffs, by diff id. */
export const diffStatsByDiffIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, DiffStat[]>> => {
  // Some diffs start with two lines that name the files.
  const { rows } = await sql<DiffStat>`
    select f.diff_id, f.new_path as path,
      regexp_count(body, '^\\+', 1, 'n') as additions, regexp_count(body, '^-', 1, 'n') as deletions
    from merge_request_diff_files f
      cross join lateral regexp_replace(f.diff, '^--- [^\\n]*\\n\\+\\+\\+ [^\\n]*\\n', '') as body
    where f.diff_id = any (${ids}::bigint[]) order by f.diff_id, f.relative_order`.execute(ctx.db);
  return Map.groupBy(rows, (row) => row.diff_id);
};

const FILE_ORDER: readonly SortKey<DiffFileRow>[] = [
  { by: sql.ref('merge_request_diff_files.relative_order'), of: (row) => row.relative_order },
];
const COMMIT_ORDER: readonly SortKey<DiffCommitRow>[] = [
  { by: sql.ref('merge_request_diff_commits.relative_order'), of: (row) => row.relative_order },
];
const BY_VERSION: readonly SortKey<MergeRequestDiffRow>[] = [
  { by: sql.ref('merge_request_diffs.id'), of: (row) => row.id },
];
const diffOf = (mergeRequestId: number | RawBuilder<number>): RawBuilder<boolean> =>
  sql<boolean>`diff_id = (select d.id from merge_request_diffs d where d.merge_request_id = ${mergeRequestId} and d.is_latest)`;
