import { z } from 'zod';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { pipelineBasicRecord, pipelineRecord, toPipeline, toPipelineBasic } from '#domains/ci/record.ts';
import { labelsByMergeRequestIds } from '#domains/labels/queries.ts';
import { labelDetailRecord, toLabelDetails } from '#domains/labels/record.ts';
import { renderTexts } from '#domains/markdown/html.ts';
import type { Prose } from '#domains/markdown/model.ts';
import { milestonesByIds } from '#domains/milestones/queries.ts';
import { milestoneRecord, toMilestone } from '#domains/milestones/record.ts';
import { subscribedAmong } from '#domains/planning/subscriptions.ts';
import { taskCompletion } from '#domains/planning/tasks.ts';
import { timeStats } from '#domains/planning/time-tracking.ts';
import { APPROVAL_RULES } from '#domains/projects/attributes.ts';
import { can } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { diffFileRecord } from '#domains/repositories/record.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { removedInV5 } from '#rest/v5.ts';
import { collaborativeByIds } from './collaboration.ts';
import { firstDeployedToProduction } from './lists/deployed.ts';
import { mergeabilityByIds } from './mergeability.ts';
import {
  descriptionProse,
  fullReference,
  mergeRequestWebUrl,
  relativeReference,
  shownMergeStatus,
  titleProse,
} from './model.ts';
import { mayMerge } from './policy.ts';
import { headPipelinesByIds, type MergeRequestRow, mergeRequestStatsByIds } from './queries.ts';
import { diffsByMergeRequestIds } from './versions/queries.ts';

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
  merged_by: removedInV5(user, { replacedBy: 'merge_user' }),
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
  merge_status: removedInV5(z.string(), { replacedBy: 'detailed_merge_status' }),
  detailed_merge_status: z.string(),
  merge_after: time,
  sha: z.string().nullable(),
  merge_commit_sha: z.string().nullable(),
  squash_commit_sha: z.string().nullable(),
  discussion_locked: z.boolean().nullable(),
  should_remove_source_branch: z.boolean().nullable(),
  force_remove_source_branch: z.boolean().nullable(),
  prepared_at: time,
  /** Only of merge requests from forks. */
  allow_collaboration: z.boolean().optional(),
  allow_maintainer_to_push: z.boolean().optional(),
  reference: removedInV5(z.string(), { replacedBy: 'references' }),
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
  approvals_before_merge: removedInV5(z.int().nullable(), APPROVAL_RULES),
};

/** A merge request in a list (specification 2 §2.5). */
export const mergeRequestListRecord = z.object(listed).meta({ id: 'MergeRequestListed' });
/** Either form in a list. */
export const anyMergeRequestRecord = z.union([mergeRequestListRecord, mergeRequestSimpleRecord]);

const whole = {
  ...listed,
  labels: z.array(z.string()),
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
  const [stats, labels, milestones, mergeability, collaborative] = await Promise.all([
    mergeRequestStatsByIds(ctx, ids),
    labelsByMergeRequestIds(ctx, ids),
    milestonesByIds(ctx, [...new Set(rows.flatMap(({ milestone_id }) => milestone_id ?? []))]),
    mergeabilityByIds(ctx, ids, rows),
    collaborativeByIds(
      ctx,
      rows.flatMap(({ id, allow_collaboration }) => (allow_collaboration ? id : [])),
    ),
  ]);
  const users = await userBasicsByIds(ctx, [
    ...rows.flatMap((row) => [row.author_id, row.merge_user_id, row.closed_by_id]),
    ...[...stats.values()].flatMap((each) => [...each.assignee_ids, ...each.reviewer_ids]),
  ]);
  const person = (id: number | null) => users.get(id) ?? null;
  const people = (of: readonly number[]) => of.flatMap((id) => person(id) ?? []);
  const labelDetails = withLabelsDetails ? await toLabelDetails(ctx, [...labels.values()].flat()) : null;
  const html = renderHtml ? await renderTexts(ctx, rows.flatMap(prosesOf)) : null;
  return rows.flatMap((row, index) => {
    const each = stats.get(row.id);
    const mergeable = mergeability.get(row.id);
    // Deleted since the list was read.
    if (!each || !mergeable) return [];
    const assignees = people(each.assignee_ids);
    const milestone = row.milestone_id === null ? undefined : milestones.get(row.milestone_id);
    const mergeUser = person(row.merge_user_id);
    const relative = relativeReference(row, place);
    return {
      ...toSimpleMergeRequest(ctx, row),
      ...(html
        ? {
            title_html: html[2 * index] ?? '',
            description_html: html[2 * index + 1] ?? '',
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
      labels: (labels.get(row.id) ?? []).map((label) => labelDetails?.get(label.id) ?? label.title),
      draft: row.draft,
      work_in_progress: row.draft,
      milestone: milestone ? toMilestone(ctx, milestone) : null,
      merge_when_pipeline_succeeds: row.merge_when_pipeline_succeeds,
      merge_status: shownMergeStatus(row),
      detailed_merge_status: mergeable.detailed_merge_status,
      merge_after: isoTime(row.merge_after),
      sha: row.diff_head_sha,
      merge_commit_sha: row.merge_commit_sha,
      squash_commit_sha: row.squash_commit_sha,
      discussion_locked: row.discussion_locked,
      should_remove_source_branch: row.should_remove_source_branch,
      force_remove_source_branch: row.force_remove_source_branch,
      prepared_at: isoTime(row.prepared_at),
      ...(row.source_project_id === row.project_id
        ? {}
        : { allow_collaboration: collaborative.has(row.id), allow_maintainer_to_push: collaborative.has(row.id) }),
      reference: relative,
      references: { short: `!${row.iid}`, relative, full: fullReference(row) },
      time_stats: timeStats(row.time_estimate, each.total_time_spent),
      squash: row.squash,
      task_completion_status: taskCompletion(row.description),
      has_conflicts: row.merge_status === 'cannot_be_merged',
      blocking_discussions_resolved: mergeable.blocking_discussions_resolved,
      approvals_before_merge: row.approvals_before_merge,
    };
  });
};

export interface WholeOptions extends Pick<ListedOptions, 'renderHtml'> {
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
  const readsPipelines = can(ctx, project, 'read_pipeline');
  const [[record], diffs, pipelines, deployedAt, can_merge, subscribed] = await Promise.all([
    toMergeRequests(ctx, [row], { ...options, place: project.full_path }),
    diffsByMergeRequestIds(ctx, [row.id]),
    readsPipelines ? headPipelinesByIds(ctx, [row.id]) : new Map<number, PipelineRow>(),
    readsPipelines && row.state === 'merged' ? firstDeployedToProduction(ctx, row.id) : null,
    mayMerge(ctx, project, row.target_branch),
    subscribedAmong(ctx, 'merge_request', [row.id]),
  ]);
  if (!record) return null;
  // The first version may have been stored since the row was read.
  const diff = row.merge_status === 'preparing' ? undefined : diffs.get(row.id);
  const pipeline = pipelines.get(row.id);
  return {
    ...record,
    labels: record.labels.flatMap((label) => (typeof label === 'string' ? [label] : [])),
    merge_error: row.merge_error,
    subscribed: subscribed.has(row.id),
    changes_count: diff?.real_size ?? (diff?.files_count == null ? null : String(diff.files_count)),
    latest_build_started_at: isoTime(pipeline?.started_at ?? null),
    latest_build_finished_at: isoTime(pipeline?.finished_at ?? null),
    first_deployed_to_production_at: isoTime(deployedAt),
    first_contribution: options.firstContribution,
    pipeline: pipeline ? toPipelineBasic(ctx, pipeline) : null,
    head_pipeline: pipeline ? await toPipeline(ctx, pipeline) : null,
    diff_refs: diff
      ? { base_sha: diff.base_commit_sha, head_sha: diff.head_commit_sha, start_sha: diff.start_commit_sha }
      : null,
    user: { can_merge },
    ...(options.divergedCommits === undefined ? {} : { diverged_commits_count: options.divergedCommits }),
    ...(options.includeRebase ? { rebase_in_progress: row.rebasing !== null } : {}),
  };
};

const prosesOf = (row: MergeRequestRow): Prose[] => [titleProse(row), descriptionProse(row)];
