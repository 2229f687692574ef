import { type IssueChanges, updateIssue } from '#domains/issues/commands.ts';
import type { IssueRow } from '#domains/issues/model.ts';
import { getIssue, issuesByIds } from '#domains/issues/queries.ts';
import { type MergeRequestChanges, updateMergeRequest } from '#domains/merge-requests/commands.ts';
import { getMergeRequest, type MergeRequestRow, mergeRequestsByIds } from '#domains/merge-requests/queries.ts';
import type { Issuable } from '#domains/planning/history.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';

export const TRACKED_KINDS = ['issue', 'merge_request'] as const;
export type TrackedKind = (typeof TRACKED_KINDS)[number];

/** An issue or a merge request that the caller can see. */
export type Tracked =
  | { readonly kind: 'issue'; readonly project: ProjectRow; readonly row: IssueRow }
  | { readonly kind: 'merge_request'; readonly project: ProjectRow; readonly row: MergeRequestRow };

/** @throws DomainError `not_found`, `forbidden` as for the issue or merge request itself */
export const getTracked = async (
  ctx: Context,
  project: ProjectRow,
  kind: TrackedKind,
  iid: number,
): Promise<Tracked> =>
  kind === 'issue'
    ? { kind, project, row: await getIssue(ctx, project, iid) }
    : { kind, project, row: await getMergeRequest(ctx, project, iid) };

/** Finds it by id, or returns null if the caller cannot see it. */
export const findTracked = async (ctx: Context, kind: TrackedKind, id: number): Promise<Tracked | null> => {
  const issue = kind === 'issue' ? (await issuesByIds(ctx, [id])).get(id) : undefined;
  const mergeRequest = kind === 'issue' ? undefined : (await mergeRequestsByIds(ctx, [id])).get(id);
  const project = await findProject(ctx, { id: (issue ?? mergeRequest)?.project_id ?? 0 });
  if (!project) return null;
  if (issue) return { kind: 'issue', project, row: issue };
  return mergeRequest ? { kind: 'merge_request', project, row: mergeRequest } : null;
};

/** Names it as the tables do. */
export const issuableOf = ({ kind, row }: Tracked): Issuable =>
  kind === 'issue' ? { issue_id: row.id } : { merge_request_id: row.id };

/** Changes what issues and merge requests have in common. @throws as the update of either */
export const updateTracked = async (
  ctx: Context,
  tracked: Tracked,
  changes: Pick<IssueChanges & MergeRequestChanges, 'time_estimate' | 'spent_time' | 'delete_timelog'>,
): Promise<Tracked> =>
  tracked.kind === 'issue'
    ? { ...tracked, row: await updateIssue(ctx, tracked.project, tracked.row, changes) }
    : { ...tracked, row: await updateMergeRequest(ctx, tracked.project, tracked.row, changes) };
