import type { Insertable } from 'kysely';
import { isGenerated } from '#domains/repositories/generated-files.ts';
import type { Tx } from '#platform/context.ts';
import type { MergeRequestDiffCommits, MergeRequestDiffFiles } from '#platform/db/tables.ts';
import type { Version } from './reading.ts';

/** The most versions of one merge request. Later pushes only move its head (reference: merge-requests §2). */
const MAX_VERSIONS = 1_000;
const ROWS_AT_ONCE = 500;

/** Stores the version as the newest one, with its commits and files. */
export const insertVersion = async (tx: Tx, merge_request_id: number, version: Version): Promise<void> => {
  const { head, base, start, commits, commitsCount, diff } = version;
  const { versions } = await tx.db
    .selectFrom('merge_request_diffs')
    .select(({ fn }) => fn.countAll<number>().as('versions'))
    .where('merge_request_id', '=', merge_request_id)
    .executeTakeFirstOrThrow();
  if (versions >= MAX_VERSIONS) return;
  await tx.db
    .updateTable('merge_request_diffs')
    .set({ is_latest: false })
    .where('merge_request_id', '=', merge_request_id)
    .execute();
  const { id: diff_id } = await tx.db
    .insertInto('merge_request_diffs')
    .values({
      merge_request_id,
      state: commitsCount === 0 ? 'empty' : diff?.overflow ? 'overflow' : 'collected',
      base_commit_sha: base,
      head_commit_sha: head,
      start_commit_sha: start,
      // `+` says that a limit has cut the list.
      real_size: diff ? `${diff.total}${diff.overflow ? '+' : ''}` : '0',
      files_count: diff?.files.length ?? 0,
      commits_count: commitsCount,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  const commitRows = commits.map(
    (commit, relative_order): Insertable<MergeRequestDiffCommits> => ({
      diff_id,
      relative_order,
      sha: commit.id,
      message: commit.message,
      author_name: commit.author_name,
      author_email: commit.author_email,
      authored_date: commit.authored_date,
      committer_name: commit.committer_name,
      committer_email: commit.committer_email,
      committed_date: commit.committed_date,
      trailers: JSON.stringify(commit.trailers),
    }),
  );
  for (let at = 0; at < commitRows.length; at += ROWS_AT_ONCE) {
    await tx.db
      .insertInto('merge_request_diff_commits')
      .values(commitRows.slice(at, at + ROWS_AT_ONCE))
      .execute();
  }
  const fileRows = (diff?.files ?? []).map(
    (file, relative_order): Insertable<MergeRequestDiffFiles> => ({
      diff_id,
      relative_order,
      old_path: file.old_path,
      new_path: file.new_path,
      a_mode: file.a_mode,
      b_mode: file.b_mode,
      new_file: file.new_file,
      renamed_file: file.renamed_file,
      deleted_file: file.deleted_file,
      generated_file: isGenerated(file.new_path),
      collapsed: diff?.collapsed[relative_order] ?? false,
      too_large: file.too_large,
      is_binary: file.diff.startsWith('Binary files '),
      // Files may hold any bytes, and texts of the database may not hold all characters.
      diff: file.diff.replaceAll('\0', '\uFFFD'),
    }),
  );
  for (let at = 0; at < fileRows.length; at += ROWS_AT_ONCE) {
    await tx.db
      .insertInto('merge_request_diff_files')
      .values(fileRows.slice(at, at + ROWS_AT_ONCE))
      .execute();
  }
};
