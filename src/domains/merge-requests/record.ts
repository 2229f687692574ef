import { z } from 'zod';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { pipelineBasicRecord, pipelineRecord, toPipeline, toPipelineBasic } from '#domains/ci/record.ts';
import { labelsByMergeRequestIds } from '#domains/labels/queries.ts';
import { labelDetailRecord, toLabelDetail } from '#domains/labels/record.ts';
import { milestonesByIds } from '#domains/milestones/queries.ts';
import { milestoneRecord, toMilestone } from '#domains/milestones/record.ts';
import { taskCompletion } from '#domains/planning/tasks.ts';
import { timeStats } from '#domains/planning/time-tracking.ts';
import { can } from '#domains/projects/policy.ts';
import { type ProjectRow, projectsByIds, ROW } from '#domains/projects/queries.ts';
import { commitWebUrl } from '#domains/repositories/model.ts';
import { commitRecord, diffFileRecord } from '#domains/repositories/record.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { toUserBasic, userBasicRecord } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { descriptionHtml } from '#platform/description-html.ts';
import { isoTime } from '#platform/time.ts';
import { mayMerge } from './merging.ts';
import {
  detailedMergeStatus,
  fullReference,
  mergeRequestWebUrl,
  relativeReference,
  shownMergeStatus,
} from './model.ts';
import {
  type DiffCommitRow,
  type DiffFileRow,
  diffsByMergeRequestIds,
  headPipelinesByIds,
  type MergeRequestDiffRow,
  type MergeRequestRow,
  mergeRequestStatsByIds,
} from './queries.ts';

/** The simple record (`view=simple`). */
const simple = {
  id: z.int(),
  iid: z.int(),
  project_id: z.int(),
  title: z.string(),
  description: z.string().nullable(),
  state: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
  web_url: z.string(),
};
export const mergeRequestSimpleRecord = z.object(simple).meta({ id: 'MergeRequestSimple' });

const user = userBasicRecord.nullable();
const time = z.string().nullable();
const listed = {
  ...simple,
  title_html: z.string().optional(),
  description_html: z.string().optional(),
  imported: z.boolean(),
  imported_from: z.string(),
  merged_by: user,
  merge_user: user,
  merged_at: time,
  closed_by: user,
  closed_at: time,
  target_branch: z.string(),
  source_branch: z.string(),
  user_notes_count: z.int(),
  upvotes: z.int(),
  downvotes: z.int(),
  author: user,
  assignees: z.array(userBasicRecord),
  assignee: user,
  reviewers: z.array(userBasicRecord),
  source_project_id: z.int().nullable(),
  target_project_id: z.int(),
  labels: z.array(z.union([z.string(), labelDetailRecord])),
  draft: z.boolean(),
  work_in_progress: z.boolean(),
  milestone: milestoneRecord.nullable(),
  merge_when_pipeline_succeeds: z.boolean(),
  merge_status: z.string(),
  detailed_merge_status: z.string(),
  merge_after: z.null(),
  sha: z.string().nullable(),
  merge_commit_sha: z.string().nullable(),
  squash_commit_sha: z.string().nullable(),
  discussion_locked: z.boolean().nullable(),
  should_remove_source_branch: z.boolean().nullable(),
  force_remove_source_branch: z.boolean().nullable(),
  prepared_at: time,
  allow_collaboration: z.boolean(),
  allow_maintainer_to_push: z.boolean(),
  reference: z.string(),
  references: z.object({ short: z.string(), relative: z.string(), full: z.string() }),
  time_stats: z.object({
    time_estimate: z.int(),
    total_time_spent: z.int(),
    human_time_estimate: z.string().nullable(),
    human_total_time_spent: z.string().nullable(),
  }),
  squash: z.boolean(),
  task_completion_status: z.object({ count: z.int(), completed_count: z.int() }),
  has_conflicts: z.boolean(),
  blocking_discussions_resolved: z.boolean(),
  approvals_before_merge: z.int().nullable(),
};

/** A merge request in a list (specification 2 §2.5). */
export const mergeRequestListRecord = z.object(listed).meta({ id: 'MergeRequestListed' });
/** Either form in a list. */
export const anyMergeRequestRecord = z.union([mergeRequestListRecord, mergeRequestSimpleRecord]);

const whole = {
  ...listed,
  merge_error: z.string().nullable(),
  subscribed: z.boolean(),
  changes_count: z.string().nullable(),
  latest_build_started_at: time,
  latest_build_finished_at: time,
  first_deployed_to_production_at: time,
  first_contribution: z.boolean(),
  pipeline: pipelineBasicRecord.nullable(),
  head_pipeline: pipelineRecord.nullable(),
  diff_refs: z
    .object({ base_sha: z.string().nullable(), head_sha: z.string().nullable(), start_sha: z.string().nullable() })
    .nullable(),
  user: z.object({ can_merge: z.boolean() }),
  diverged_commits_count: z.int().optional(),
  rebase_in_progress: z.boolean().optional(),
};
/** The record of a single merge request. */
export const mergeRequestRecord = z.object(whole).meta({ id: 'MergeRequest' });

export const mergeRequestChangesRecord = z
  .object({ ...whole, changes: z.array(diffFileRecord), overflow: z.boolean() })
  .meta({ id: 'MergeRequestChanges' });

export interface ListedOptions {
  /** The full path of the requested project, for the relative reference. */
  readonly place?: string | null;
  readonly withLabelsDetails?: boolean;
  readonly renderHtml?: boolean | undefined;
}

export const toSimpleMergeRequest = (
  ctx: Context,
  row: MergeRequestRow,
): z.output<typeof mergeRequestSimpleRecord> => ({
  id: row.id,
  iid: row.iid,
  project_id: row.project_id,
  title: row.title,
  description: row.description,
  state: row.state,
  created_at: isoTime(row.created_at),
  updated_at: isoTime(row.updated_at),
  web_url: mergeRequestWebUrl(ctx, row),
});

/** Returns the records of a page, with all related data read at once. */
export const toMergeRequests = async (
  ctx: Context,
  rows: readonly MergeRequestRow[],
  { place = null, withLabelsDetails = false, renderHtml = false }: ListedOptions = {},
): Promise<z.output<typeof mergeRequestListRecord>[]> => {
  if (rows.length === 0) return [];
  const ids = rows.map(({ id }) => id);
  const [stats, labels, milestones, projects, pipelines] = await Promise.all([
    mergeRequestStatsByIds(ctx, ids),
    labelsByMergeRequestIds(ctx, ids),
    milestonesByIds(ctx, [...new Set(rows.flatMap(({ milestone_id }) => milestone_id ?? []))]),
    projectsByIds(ctx, [...new Set(rows.map(({ project_id }) => project_id))], ROW),
    headPipelinesByIds(ctx, ids),
  ]);
  const userIds = new Set<number>();
  for (const row of rows) {
    for (const id of [row.author_id, row.merge_user_id, row.closed_by_id]) if (id !== null) userIds.add(id);
    const each = stats.get(row.id);
    for (const id of [...(each?.assignee_ids ?? []), ...(each?.reviewer_ids ?? [])]) userIds.add(id);
  }
  const users = await userSummariesByIds(ctx, [...userIds]);
  const person = (id: number | null) => {
    const found = id === null ? undefined : users.get(id);
    return found ? toUserBasic(ctx, found) : null;
  };
  const people = (of: readonly number[]) => of.flatMap((id) => person(id) ?? []);
  return rows.flatMap((row) => {
    const each = stats.get(row.id);
    const project = projects.get(row.project_id);
    // Deleted since the list was read.
    if (!each || !project) return [];
    const assignees = people(each.assignee_ids);
    const milestone = row.milestone_id === null ? undefined : milestones.get(row.milestone_id);
    const mergeUser = person(row.merge_user_id);
    const relative = relativeReference(row, place);
    return {
      ...toSimpleMergeRequest(ctx, row),
      ...(renderHtml
        ? {
            title_html: withoutParagraph(descriptionHtml(row.title)),
            description_html: descriptionHtml(row.description),
          }
        : {}),
      imported: row.imported,
      imported_from: row.imported ? 'gitlab_project' : 'none',
      merged_by: row.state === 'merged' ? mergeUser : null,
      merge_user: mergeUser,
      merged_at: isoTime(row.merged_at),
      closed_by: person(row.closed_by_id),
      closed_at: isoTime(row.closed_at),
      target_branch: row.target_branch,
      source_branch: row.source_branch,
      user_notes_count: each.user_notes_count,
      upvotes: each.upvotes,
      downvotes: each.downvotes,
      author: person(row.author_id),
      assignees,
      assignee: assignees[0] ?? null,
      reviewers: people(each.reviewer_ids),
      source_project_id: row.source_project_id,
      target_project_id: row.project_id,
      labels: (labels.get(row.id) ?? []).map((label) => (withLabelsDetails ? toLabelDetail(label) : label.title)),
      draft: row.draft,
      work_in_progress: row.draft,
      milestone: milestone ? toMilestone(ctx, milestone) : null,
      merge_when_pipeline_succeeds: row.merge_when_pipeline_succeeds,
      merge_status: shownMergeStatus(row),
      detailed_merge_status: detailedMergeStatus(row, each, project, pipelines.get(row.id)),
      // Merges cannot be scheduled.
      merge_after: null,
      sha: row.diff_head_sha,
      merge_commit_sha: row.merge_commit_sha,
      squash_commit_sha: row.squash_commit_sha,
      discussion_locked: row.discussion_locked,
      should_remove_source_branch: row.should_remove_source_branch,
      force_remove_source_branch: row.force_remove_source_branch,
      prepared_at: isoTime(row.prepared_at),
      allow_collaboration: row.allow_collaboration,
      allow_maintainer_to_push: row.allow_collaboration,
      reference: relative,
      references: { short: `!${row.iid}`, relative, full: fullReference(row) },
      time_stats: timeStats(row.time_estimate, each.total_time_spent),
      squash: row.squash,
      task_completion_status: taskCompletion(row.description),
      has_conflicts: row.merge_status === 'cannot_be_merged',
      blocking_discussions_resolved: each.unresolved_discussions === 0,
      approvals_before_merge: row.approvals_before_merge,
    };
  });
};

export interface WholeOptions extends ListedOptions {
  readonly firstContribution: boolean;
  readonly divergedCommits?: number | undefined;
  readonly includeRebase?: boolean | undefined;
}

/** Returns the record of one merge request; null if it has been deleted. */
export const toMergeRequest = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  options: WholeOptions,
): Promise<z.output<typeof mergeRequestRecord> | null> => {
  const [[record], diffs, pipelines, can_merge] = await Promise.all([
    toMergeRequests(ctx, [row], { ...options, place: project.full_path }),
    diffsByMergeRequestIds(ctx, [row.id]),
    can(ctx, project, 'read_pipeline') ? headPipelinesByIds(ctx, [row.id]) : new Map<number, PipelineRow>(),
    mayMerge(ctx, project, row.target_branch),
  ]);
  if (!record) return null;
  const diff = diffs.get(row.id);
  const pipeline = pipelines.get(row.id);
  return {
    ...record,
    merge_error: row.merge_error,
    // There are no notifications to subscribe to.
    subscribed: false,
    changes_count: diff?.real_size ?? (diff?.files_count == null ? null : String(diff.files_count)),
    latest_build_started_at: isoTime(pipeline?.started_at ?? null),
    latest_build_finished_at: isoTime(pipeline?.finished_at ?? null),
    // There are no deployments.
    first_deployed_to_production_at: null,
    first_contribution: options.firstContribution,
    pipeline: pipeline ? toPipelineBasic(ctx, pipeline) : null,
    head_pipeline: pipeline ? await toPipeline(ctx, pipeline) : null,
    diff_refs: diff
      ? { base_sha: diff.base_commit_sha, head_sha: diff.head_commit_sha, start_sha: diff.start_commit_sha }
      : null,
    user: { can_merge },
    ...(options.divergedCommits === undefined ? {} : { diverged_commits_count: options.divergedCommits }),
    ...(options.includeRebase ? { rebase_in_progress: false } : {}),
  };
};

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
  files: readonly DiffFileRow[],
): z.output<typeof mergeRequestWholeVersionRecord> => ({
  ...toVersion(row),
  commits: commits.map((commit) => toDiffCommit(ctx, project, commit)),
  diffs: files.map((file) => toDiffFile(file)),
});

/** With `unidiff`, adds the two lines that name the files if the stored diff lacks them. */
export const toDiffFile = (row: DiffFileRow, unidiff = false): z.output<typeof diffFileRecord> => ({
  old_path: row.old_path,
  new_path: row.new_path,
  a_mode: row.a_mode,
  b_mode: row.b_mode,
  diff:
    unidiff && row.diff.startsWith('@@')
      ? `--- ${row.new_file ? '/dev/null' : `a/${row.old_path}`}\n+++ ${row.deleted_file ? '/dev/null' : `b/${row.new_path}`}\n${row.diff}`
      : row.diff,
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

const withoutParagraph = (html: string): string => html.replace(/^<p>|<\/p>$/g, '');
