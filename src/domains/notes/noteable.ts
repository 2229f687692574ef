import { PRIVATE, REPORTER } from '#domains/access/model.ts';
import { type IssueRow, issueWebUrl } from '#domains/issues/model.ts';
import { getIssue, issuesByIds } from '#domains/issues/queries.ts';
import { issueAudience, snapshotOf } from '#domains/issues/snapshot.ts';
import { getMergeRequest, type MergeRequestRow } from '#domains/merge-requests/queries.ts';
import { type ProjectRow, projectScope, projectWebUrl } from '#domains/projects/model.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import { getCommit } from '#domains/repositories/commits.ts';
import type { Commit } from '#domains/repositories/model.ts';
import { codeAudience } from '#domains/repositories/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';

const NOTEABLE_KINDS = ['issue', 'merge_request'] as const;
export type NoteableKind = (typeof NOTEABLE_KINDS)[number];

/** The kinds of subjects that comments can have. Commits have comments too, but no number. */
export const COMMENTABLE_KINDS = [...NOTEABLE_KINDS, 'commit'] as const;

/** An issue or merge request that the caller can see and that has comments. */
export interface Noteable {
  readonly kind: NoteableKind;
  readonly project: ProjectRow;
  readonly id: number;
  readonly iid: number;
  readonly discussion_locked: boolean | null;
  /** Null for merge requests. */
  readonly issue: IssueRow | null;
  /** Null for issues. */
  readonly mergeRequest: MergeRequestRow | null;
}

/** A commit whose code the caller can read. It has no number; its comments refer to it by its id. */
export interface NoteableCommit {
  readonly kind: 'commit';
  readonly project: ProjectRow;
  readonly commit: Commit;
  readonly id: null;
  readonly iid: null;
  readonly discussion_locked: null;
  readonly issue: null;
  readonly mergeRequest: null;
}

/** Anything that has comments. */
export type Commentable = Noteable | NoteableCommit;

/** @throws DomainError `not_found` (Commit), `forbidden` as `requireAbility(read_code)` */
export const getNoteableCommit = async (ctx: Context, project: ProjectRow, sha: string): Promise<NoteableCommit> => {
  const commit = await getCommit(ctx, project, sha);
  return {
    kind: 'commit',
    project,
    commit,
    id: null,
    iid: null,
    discussion_locked: null,
    issue: null,
    mergeRequest: null,
  };
};

/** @throws DomainError `not_found`, `forbidden` as for the issue or merge request itself */
export const getNoteable = async (
  ctx: Context,
  project: ProjectRow,
  kind: NoteableKind,
  iid: number,
): Promise<Noteable> => {
  const issue = kind === 'issue' ? await getIssue(ctx, project, iid) : null;
  if (issue) return { kind, project, ...common(issue), issue, mergeRequest: null };
  const mergeRequest = await getMergeRequest(ctx, project, iid);
  return { kind, project, ...common(mergeRequest), issue: null, mergeRequest };
};

const common = ({ id, iid, discussion_locked }: Pick<Noteable, 'id' | 'iid' | 'discussion_locked'>) => ({
  id,
  iid,
  discussion_locked,
});

/** Returns the same by global id. @throws DomainError `not_found`, also if the caller cannot see it */
export const getNoteableById = async (ctx: Context, kind: NoteableKind, id: number): Promise<Noteable> => {
  const found =
    kind === 'issue'
      ? (await issuesByIds(ctx, [id])).get(id)
      : await ctx.db.selectFrom('merge_requests').select(['project_id', 'iid']).where('id', '=', id).executeTakeFirst();
  const project = found && (await findProject(ctx, { id: found.project_id }));
  if (!project || !can(ctx, project, kind === 'issue' ? 'read_issue' : 'read_merge_request')) throw notFound();
  return getNoteable(ctx, project, kind, found.iid);
};

const TYPES = { issue: 'Issue', merge_request: 'MergeRequest', commit: 'Commit' } as const;

/** `Issue`, `MergeRequest` or `Commit`. */
export const noteableType = (kind: NoteableKind | 'commit') => TYPES[kind];

export const noteableWebUrl = (
  ctx: Pick<Context, 'services'>,
  project: Pick<ProjectRow, 'full_path'>,
  kind: NoteableKind,
  iid: number,
): string =>
  kind === 'issue' ? issueWebUrl(ctx, project, { iid }) : `${projectWebUrl(ctx, project)}/-/merge_requests/${iid}`;

/** Returns the scope and audience of comment events. Internal comments are for Reporters and above. */
export const noteAudience = async (tx: Tx, { kind, project, issue }: Commentable, isInternal: boolean) => {
  if (kind === 'commit') return { ...projectScope(project), min_access_level: codeAudience(project), user_ids: [] };
  if (isInternal) return { ...projectScope(project), min_access_level: REPORTER, user_ids: [] };
  if (issue) return issueAudience(tx, project, await snapshotOf(tx, issue));
  const isOpen = project.merge_requests_access_level === 'enabled' && project.repository_access_level === 'enabled';
  const least = project.visibility_level > PRIVATE && isOpen ? null : REPORTER;
  return { ...projectScope(project), min_access_level: least, user_ids: [] };
};
