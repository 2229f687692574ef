import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { commitWebUrl } from '#domains/repositories/model.ts';
import { commitRecord, diffFileRecord } from '#domains/repositories/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import type { DiffCommitRow, DiffFileRow, MergeRequestDiffRow } from '../versions/queries.ts';
import { withFileNames } from '../versions/raw-diffs.ts';

const version = {
  id: z.int(),
  head_commit_sha: z.string().nullable(),
  base_commit_sha: z.string().nullable(),
  start_commit_sha: z.string().nullable(),
  created_at: z.string(),
  merge_request_id: z.int(),
  state: z.string(),
  real_size: z.string().nullable(),
};
/** A version of the diff (reference: merge-requests §2). */
export const mergeRequestVersionRecord = z.object(version).meta({ id: 'MergeRequestVersion' });
export const mergeRequestWholeVersionRecord = z
  .object({ ...version, commits: z.array(commitRecord), diffs: z.array(diffFileRecord) })
  .meta({ id: 'MergeRequestWholeVersion' });

export const toVersion = (row: MergeRequestDiffRow): z.output<typeof mergeRequestVersionRecord> => ({
  id: row.id,
  head_commit_sha: row.head_commit_sha,
  base_commit_sha: row.base_commit_sha,
  start_commit_sha: row.start_commit_sha,
  created_at: isoTime(row.created_at),
  merge_request_id: row.merge_request_id,
  state: row.state,
  real_size: row.real_size,
});

export const toWholeVersion = (
  ctx: Context,
  project: Pick<ProjectRow, 'full_path'>,
  row: MergeRequestDiffRow,
  commits: readonly DiffCommitRow[],
  diffs: z.output<typeof diffFileRecord>[],
): z.output<typeof mergeRequestWholeVersionRecord> => ({
  ...toVersion(row),
  commits: commits.map((commit) => toDiffCommit(ctx, project, commit)),
  diffs,
});

/** With `unidiff`, adds the two lines that name the files if the stored diff lacks them. */
export const toDiffFile = (row: DiffFileRow, unidiff = false): z.output<typeof diffFileRecord> => ({
  old_path: row.old_path,
  new_path: row.new_path,
  a_mode: row.a_mode,
  b_mode: row.b_mode,
  diff: unidiff ? withFileNames(row) : row.diff,
  new_file: row.new_file,
  renamed_file: row.renamed_file,
  deleted_file: row.deleted_file,
  generated_file: row.generated_file,
  collapsed: row.collapsed,
  too_large: row.too_large,
});

/** Returns a commit as stored with the merge request, without parents and without the offsets of its times. */
export const toDiffCommit = (
  ctx: Context,
  project: Pick<ProjectRow, 'full_path'>,
  row: DiffCommitRow,
): z.output<typeof commitRecord> => {
  const message = row.message ?? '';
  const committed = isoTime(row.committed_date ?? row.authored_date ?? EPOCH);
  return {
    id: row.sha,
    short_id: row.sha.slice(0, 8),
    created_at: committed,
    parent_ids: [],
    title: message.split('\n', 1)[0] ?? '',
    message,
    author_name: row.author_name ?? '',
    author_email: row.author_email ?? '',
    authored_date: isoTime(row.authored_date ?? row.committed_date ?? EPOCH),
    committer_name: row.committer_name ?? row.author_name ?? '',
    committer_email: row.committer_email ?? row.author_email ?? '',
    committed_date: committed,
    trailers: trailersOf(row),
    extended_trailers: Object.fromEntries(Object.entries(trailersOf(row)).map(([key, value]) => [key, [value]])),
    web_url: commitWebUrl(ctx, project, row.sha),
  };
};

const EPOCH = '1970-01-01 00:00:00+00';
const trailers = z.record(z.string(), z.string());
const trailersOf = (row: DiffCommitRow): Record<string, string> => trailers.safeParse(row.trailers).data ?? {};
