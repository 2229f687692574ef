import { issuesByIds } from '#domains/issues/queries.ts';
import { snapshotOf } from '#domains/issues/snapshot.ts';
import { hookIssue } from '#domains/issues/webhook.ts';
import { hookMergeRequest, mergeRequestFacts } from '#domains/merge-requests/webhook.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { findProjectWith } from '#domains/projects/queries.ts';
import {
  HOOK_PARTS,
  type HookedProject,
  hookMarkdown,
  hookProject,
  hookRepository,
} from '#domains/projects/webhook.ts';
import { commitWebUrl } from '#domains/repositories/model.ts';
import { hookCommit } from '#domains/repositories/webhook.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { hookTime } from '#platform/time.ts';
import type { NotePayload } from './events.ts';
import { type NoteableKind, noteableType, noteableWebUrl } from './noteable.ts';

/** The subject of a comment, as comment bodies include it. */
type Subject = { readonly [kind in NotePayload['noteable_kind']]?: Record<string, unknown> };

/** The body of comment events (reference: webhooks §3); null if there is no subject to show (`hookSubject`). */
export const noteBody =
  (action: 'create' | 'update') =>
  async (ctx: Context, event: EventRow, note: NotePayload): Promise<Record<string, unknown> | null> => {
    const project = await findProjectWith(ctx, { id: note.project_id }, [...HOOK_PARTS, 'disk_path']);
    const subject = project && (await subjectOf(ctx, project, note));
    if (!project || !subject) return null;
    return noteBodyIn(ctx, project, { note, subject, action, actor_id: event.actor_id });
  };

const subjectOf = async (
  ctx: Context,
  project: HookedProject & Pick<ProjectRow, 'disk_path'>,
  { noteable_kind, noteable_id, commit_id, is_confidential }: NotePayload,
): Promise<Subject | null> => {
  if (noteable_kind !== 'commit') return hookSubject(ctx, project, noteable_kind, noteable_id ?? 0, is_confidential);
  const [commit] = await ctx.services.git.readCommits(project.disk_path, [commit_id ?? '']);
  return commit ? { commit: hookCommit(ctx, project, commit) } : null;
};

interface Commented {
  readonly note: NotePayload;
  readonly subject: Subject;
  readonly action: 'create' | 'update';
  readonly actor_id: number | null;
}

/** The same for a known project and subject. */
export const noteBodyIn = async (
  ctx: Context,
  project: HookedProject,
  { note, subject, action, actor_id }: Commented,
): Promise<Record<string, unknown>> => {
  const user = (await userSummariesByIds(ctx, [actor_id])).get(actor_id ?? 0);
  return {
    object_kind: 'note',
    event_type: note.is_confidential ? 'confidential_note' : 'note',
    user: user ? hookUser(ctx, user) : null,
    project_id: note.project_id,
    project: hookProject(ctx, project),
    object_attributes: { ...hookNote(ctx, project, note), st_diff: await excerptOf(ctx, note), action },
    repository: hookRepository(ctx, project),
    ...subject,
  };
};

/** The part of the diff that a comment on a line is about. */
const excerptOf = async (
  ctx: Context,
  { noteable_kind, noteable_id, discussion_id, position }: NotePayload,
): Promise<unknown> => {
  if (position == null || noteable_kind !== 'merge_request') return null;
  // The comment that started the thread has it.
  const row = await ctx.db
    .selectFrom('notes')
    .select('st_diff')
    .where('merge_request_id', '=', noteable_id)
    .where('discussion_id', '=', discussion_id)
    .orderBy('id')
    .executeTakeFirst();
  return row?.st_diff ?? null;
};

/** The attributes of a comment in webhook bodies: in its own events and in emoji on it. */
export const hookNote = (ctx: Context, project: Pick<HookedProject, 'full_path'>, note: NotePayload) => ({
  attachment: null,
  author_id: note.author_id,
  change_position: null,
  commit_id: note.commit_id ?? null,
  created_at: hookTime(note.created_at),
  discussion_id: note.discussion_id,
  id: note.id,
  internal: note.internal,
  line_code: note.line_code ?? null,
  note: hookMarkdown(ctx, note.project_id, note.note),
  noteable_id: note.noteable_id,
  noteable_type: noteableType(note.noteable_kind),
  original_position: note.original_position ?? null,
  position: note.position ?? null,
  project_id: note.project_id,
  resolved_at: hookTime(note.resolved_at),
  resolved_by_id: note.resolved_by_id,
  resolved_by_push: null,
  st_diff: null,
  system: false,
  type: note.type,
  updated_at: hookTime(note.updated_at),
  updated_by_id: note.updated_by_id,
  description: hookMarkdown(ctx, note.project_id, note.note),
  url: `${commentedUrl(ctx, project, note)}#note_${note.id}`,
});

const commentedUrl = (
  ctx: Pick<Context, 'services'>,
  project: Pick<HookedProject, 'full_path'>,
  { noteable_kind, noteable_iid, commit_id }: NotePayload,
): string =>
  noteable_kind === 'commit'
    ? commitWebUrl(ctx, project, commit_id ?? '')
    : noteableWebUrl(ctx, project, noteable_kind, noteable_iid ?? 0);

/**
 * Returns the subject as it is now. Null if it does not exist, or is an issue that became confidential after an event that
 * was not: hooks that hear only of open issues must not get its present text.
 */
export const hookSubject = async (
  ctx: Context,
  project: HookedProject,
  kind: NoteableKind,
  id: number,
  isConfidential: boolean,
): Promise<Subject | null> => {
  if (kind === 'issue') {
    const issue = (await issuesByIds(ctx, [id])).get(id);
    if (issue?.confidential && !isConfidential) return null;
    return issue ? { issue: hookIssue(ctx, project, await snapshotOf(ctx, issue)) } : null;
  }
  const facts = await mergeRequestFacts(ctx, id);
  if (!facts) return null;
  const [assignee] = facts.assignees;
  return {
    merge_request: { ...hookMergeRequest(ctx, facts), assignee: assignee ? hookUser(ctx, assignee) : null },
  };
};
