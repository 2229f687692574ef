import { snapshotOf } from '#domains/issues/commands.ts';
import { issuesByIds } from '#domains/issues/queries.ts';
import { hookIssue } from '#domains/issues/webhook.ts';
import { labelsByMergeRequestIds } from '#domains/labels/queries.ts';
import { hookLabel } from '#domains/labels/webhook.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import { HOOK_PARTS, hookProject, hookRepository } from '#domains/projects/webhook.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import { hookTime, isoTime } from '#platform/time.ts';
import type { NotePayload } from './events.ts';
import { noteableType, noteableWebUrl } from './noteable.ts';

/** The body of comment events (reference: webhooks §3); null when what was commented on has gone since. */
export const noteBody =
  (action: 'create' | 'update') =>
  async (ctx: Context, event: EventRow, note: NotePayload): Promise<Record<string, unknown> | null> => {
    const project = await findProject(ctx, { id: note.project_id }, HOOK_PARTS);
    if (!project) return null;
    const subject =
      note.noteable_kind === 'issue'
        ? await issueSubject(ctx, project, note.noteable_id)
        : await mergeRequestSubject(ctx, project, note.noteable_id);
    if (!subject) return null;
    const user = (await userSummariesByIds(ctx, event.actor_id === null ? [] : [event.actor_id])).get(
      event.actor_id ?? 0,
    );
    return {
      object_kind: 'note',
      event_type: note.is_confidential ? 'confidential_note' : 'note',
      user: user ? hookUser(ctx, user) : null,
      project_id: note.project_id,
      project: hookProject(ctx, project),
      object_attributes: {
        attachment: null,
        author_id: note.author_id,
        change_position: null,
        commit_id: null,
        created_at: hookTime(note.created_at),
        discussion_id: note.discussion_id,
        id: note.id,
        internal: note.internal,
        line_code: null,
        note: note.note,
        noteable_id: note.noteable_id,
        noteable_type: noteableType(note.noteable_kind),
        original_position: null,
        position: null,
        project_id: note.project_id,
        resolved_at: hookTime(note.resolved_at),
        resolved_by_id: note.resolved_by_id,
        resolved_by_push: null,
        st_diff: null,
        system: false,
        type: note.type,
        updated_at: hookTime(note.updated_at),
        updated_by_id: note.updated_by_id,
        description: note.note,
        url: `${noteableWebUrl(ctx, project, note.noteable_kind, note.noteable_iid)}#note_${note.id}`,
        action,
      },
      repository: hookRepository(ctx, project),
      ...subject,
    };
  };

type HookedProject = Pick<ProjectRow, (typeof HOOK_PARTS)[number]>;

const issueSubject = async (ctx: Context, project: HookedProject, id: number) => {
  const issue = (await issuesByIds(ctx, [id])).get(id);
  return issue ? { issue: hookIssue(ctx, project, await snapshotOf(ctx, issue)) } : null;
};

const STATE_IDS: Readonly<Record<string, number>> = { opened: 1, closed: 2, merged: 3, locked: 4 };

const mergeRequestSubject = async (ctx: Context, project: HookedProject, id: number) => {
  const row = await ctx.db.selectFrom('merge_requests').selectAll().where('id', '=', id).executeTakeFirst();
  if (!row) return null;
  const [labels, assignees, reviewers, source] = await Promise.all([
    labelsByMergeRequestIds(ctx, [id]),
    ctx.db.selectFrom('merge_request_assignees').select('user_id').where('merge_request_id', '=', id).execute(),
    ctx.db.selectFrom('merge_request_reviewers').select('user_id').where('merge_request_id', '=', id).execute(),
    row.source_project_id === null || row.source_project_id === project.id
      ? project
      : findProject(ctx, { id: row.source_project_id }, HOOK_PARTS),
  ]);
  const assignee_ids = assignees.map(({ user_id }) => user_id);
  const people = await userSummariesByIds(ctx, assignee_ids.slice(0, 1));
  const [assignee] = [...people.values()];
  return {
    merge_request: {
      id: row.id,
      iid: row.iid,
      title: row.title,
      description: row.description,
      author_id: row.author_id,
      assignee_id: assignee_ids[0] ?? null,
      assignee_ids,
      reviewer_ids: reviewers.map(({ user_id }) => user_id),
      source_branch: row.source_branch,
      target_branch: row.target_branch,
      source_project_id: row.source_project_id,
      target_project_id: row.project_id,
      source: source ? hookProject(ctx, source) : null,
      target: hookProject(ctx, project),
      last_commit: row.diff_head_sha === null ? null : { id: row.diff_head_sha },
      assignee: assignee ? hookUser(ctx, assignee) : null,
      labels: (labels.get(id) ?? []).map(hookLabel),
      draft: row.draft,
      work_in_progress: row.draft,
      state: row.state,
      state_id: STATE_IDS[row.state] ?? 1,
      merge_status: row.merge_status,
      merge_commit_sha: row.merge_commit_sha,
      merge_error: row.merge_error,
      merge_user_id: row.merge_user_id,
      milestone_id: row.milestone_id,
      time_estimate: row.time_estimate,
      created_at: isoTime(row.created_at),
      updated_at: isoTime(row.updated_at),
      prepared_at: isoTime(row.prepared_at),
      last_edited_at: isoTime(row.last_edited_at),
      last_edited_by_id: row.last_edited_by_id,
      updated_by_id: row.updated_by_id,
      url: noteableWebUrl(ctx, project, 'merge_request', row.iid),
    },
  };
};
