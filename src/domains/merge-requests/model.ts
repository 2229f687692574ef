import type { PipelineRow } from '#domains/ci/queries.ts';
import { projectWebUrl } from '#domains/projects/model.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { MergeRequestRow, MergeRequestStats } from './queries.ts';

export const MERGE_REQUEST_STATES = ['opened', 'closed', 'locked', 'merged'] as const;
export type MergeRequestState = (typeof MERGE_REQUEST_STATES)[number];

export const MERGE_STATUSES = [
  'unchecked',
  'checking',
  'can_be_merged',
  'cannot_be_merged',
  'cannot_be_merged_recheck',
] as const;
export type MergeStatus = (typeof MERGE_STATUSES)[number];

/** Returns the merge status as clients know it: a merge request whose first version is being made is `checking`. */
export const shownMergeStatus = ({ merge_status }: Pick<MergeRequestRow, 'merge_status'>): MergeStatus =>
  merge_status === 'preparing' ? 'checking' : (MERGE_STATUSES.find((each) => each === merge_status) ?? 'unchecked');

/** The statuses of reference merge-requests §3 that can occur here. */
export const DETAILED_MERGE_STATUSES = [
  'preparing',
  'unchecked',
  'checking',
  'mergeable',
  'ci_must_pass',
  'ci_still_running',
  'commits_status',
  'discussions_not_resolved',
  'draft_status',
  'not_open',
  'conflict',
] as const;
export type DetailedMergeStatus = (typeof DETAILED_MERGE_STATUSES)[number];

/**
 * Returns whether the merge request can be merged: `mergeable`, or the first reason why not in the order of the
 * reference (merge-requests §3).
 */
export const detailedMergeStatus = (
  row: Pick<MergeRequestRow, 'state' | 'draft' | 'merge_status' | 'source_project_id' | 'diff_head_sha'>,
  stats: Pick<MergeRequestStats, 'unresolved_discussions' | 'is_empty'>,
  rules: Pick<
    ProjectRow,
    | 'only_allow_merge_if_all_discussions_are_resolved'
    | 'only_allow_merge_if_pipeline_succeeds'
    | 'allow_merge_on_skipped_pipeline'
  >,
  pipeline: Pick<PipelineRow, 'status' | 'sha' | 'source_sha'> | null | undefined,
): DetailedMergeStatus => {
  switch (row.merge_status) {
    case 'preparing':
    case 'checking':
      return row.merge_status;
    case 'unchecked':
    case 'cannot_be_merged_recheck':
      return 'unchecked';
  }
  if (row.state !== 'opened') return 'not_open';
  if (row.draft) return 'draft_status';
  if (stats.is_empty || row.source_project_id === null) return 'commits_status';
  if (rules.only_allow_merge_if_all_discussions_are_resolved && stats.unresolved_discussions > 0) {
    return 'discussions_not_resolved';
  }
  if (row.merge_status === 'cannot_be_merged') return 'conflict';
  if (!rules.only_allow_merge_if_pipeline_succeeds) return 'mergeable';
  const pipelineStatus = isOfHead(row, pipeline) ? pipeline.status : null;
  if (pipelineStatus === 'success') return 'mergeable';
  if (pipelineStatus === 'skipped' && rules.allow_merge_on_skipped_pipeline === true) return 'mergeable';
  return pipelineStatus === 'running' || pipelineStatus === 'pending' ? 'ci_still_running' : 'ci_must_pass';
};

/** Returns true for a pipeline of the head. Those of earlier commits do not count for merging. */
export const isOfHead = <P extends Pick<PipelineRow, 'sha' | 'source_sha'>>(
  { diff_head_sha }: Pick<MergeRequestRow, 'diff_head_sha'>,
  pipeline: P | null | undefined,
): pipeline is P =>
  pipeline != null && diff_head_sha !== null && [pipeline.sha, pipeline.source_sha].includes(diff_head_sha);

const DRAFT = /^\s*(?:\[draft\]|\(draft\)|draft:)\s*/i;

/** Returns true for a title that marks a draft (reference: merge-requests §1). */
export const isDraftTitle = (title: string): boolean => DRAFT.test(title);

/** Returns the title with or without the mark of a draft. */
export const withDraftMark = (title: string, draft: boolean): string => {
  let bare = title;
  while (DRAFT.test(bare)) bare = bare.replace(DRAFT, '');
  return draft ? `Draft: ${bare}` : bare;
};

export const stateOf = ({ state }: Pick<MergeRequestRow, 'state'>): MergeRequestState =>
  MERGE_REQUEST_STATES.find((each) => each === state) ?? 'opened';

type Addressed = Pick<MergeRequestRow, 'iid' | 'project_path'>;

export const mergeRequestWebUrl = (ctx: Pick<Context, 'services'>, { iid, project_path }: Addressed): string =>
  `${projectWebUrl(ctx, { full_path: project_path })}/-/merge_requests/${iid}`;

/** Returns `group/project!7`. */
export const fullReference = ({ iid, project_path }: Addressed): string => `${project_path}!${iid}`;

/** Returns the reference relative to a project: `!7` in its own project, the full reference elsewhere. */
export const relativeReference = (row: Addressed, projectPath: string | null): string =>
  projectPath === row.project_path ? `!${row.iid}` : fullReference(row);

/** Returns true if merging will squash. The project's setting takes precedence. */
export const squashOnMerge = (row: MergeRequestRow, { squash_option }: Pick<ProjectRow, 'squash_option'>): boolean =>
  squash_option === 'always' || (squash_option !== 'never' && row.squash);
