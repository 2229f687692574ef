import type { Prose } from '#domains/markdown/model.ts';
import { projectWebUrl } from '#domains/projects/model.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { MergeRequestRow } from './queries.ts';

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

/** The states of a review. Export archives store the position in this list. */
export const REVIEW_STATES = [
  'unreviewed',
  'reviewed',
  'requested_changes',
  'approved',
  'unapproved',
  'review_started',
] as const;
export type ReviewState = (typeof REVIEW_STATES)[number];

/** Returns the merge status as clients know it: a merge request whose first version is being made is `checking`. */
export const shownMergeStatus = ({ merge_status }: Pick<MergeRequestRow, 'merge_status'>): MergeStatus =>
  merge_status === 'preparing' ? 'checking' : (MERGE_STATUSES.find((each) => each === merge_status) ?? 'unchecked');

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
export const squashOnMerge = (
  row: Pick<MergeRequestRow, 'squash'>,
  { squash_option }: Pick<ProjectRow, 'squash_option'>,
): boolean => squash_option === 'always' || (squash_option !== 'never' && row.squash);

export const titleProse = ({ title, project_id }: Pick<MergeRequestRow, 'title' | 'project_id'>): Prose => ({
  text: title,
  home: { kind: 'project', id: project_id },
  inline: true,
});

export const descriptionProse = (row: Pick<MergeRequestRow, 'description' | 'project_id'>): Prose => ({
  text: row.description,
  home: { kind: 'project', id: row.project_id },
});
