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

/** The statuses of reference conventions §8 that can occur here. */
export const DETAILED_MERGE_STATUSES = [
  'unchecked',
  'checking',
  'mergeable',
  'ci_must_pass',
  'ci_still_running',
  'discussions_not_resolved',
  'draft_status',
  'not_open',
  'conflict',
] as const;
export type DetailedMergeStatus = (typeof DETAILED_MERGE_STATUSES)[number];

/** Returns the merge status from the stored data: mergeable, or the reason why not. */
export const detailedMergeStatus = (
  row: MergeRequestRow,
  stats: Pick<MergeRequestStats, 'unresolved_discussions'>,
  rules: Pick<
    ProjectRow,
    | 'only_allow_merge_if_all_discussions_are_resolved'
    | 'only_allow_merge_if_pipeline_succeeds'
    | 'allow_merge_on_skipped_pipeline'
  >,
  pipelineStatus: string | null,
): DetailedMergeStatus => {
  if (row.state !== 'opened') return 'not_open';
  if (row.draft) return 'draft_status';
  if (row.merge_status === 'cannot_be_merged') return 'conflict';
  if (rules.only_allow_merge_if_all_discussions_are_resolved && stats.unresolved_discussions > 0) {
    return 'discussions_not_resolved';
  }
  if (rules.only_allow_merge_if_pipeline_succeeds) {
    const passed =
      pipelineStatus === 'success' || (pipelineStatus === 'skipped' && rules.allow_merge_on_skipped_pipeline === true);
    if (!passed)
      return pipelineStatus === 'running' || pipelineStatus === 'pending' ? 'ci_still_running' : 'ci_must_pass';
  }
  if (row.merge_status === 'checking') return 'checking';
  return row.merge_status === 'can_be_merged' ? 'mergeable' : 'unchecked';
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
