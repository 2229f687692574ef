import { sql } from 'kysely';
import { type Awarded, emojiBody } from '#domains/emoji/webhook.ts';
import type { IssueSnapshot } from '#domains/issues/events.ts';
import { issueWebUrl } from '#domains/issues/model.ts';
import { issuesByIds } from '#domains/issues/queries.ts';
import { snapshotOf } from '#domains/issues/snapshot.ts';
import { hookIssue, issueBodyIn } from '#domains/issues/webhook.ts';
import { type MergeRequestFacts, mergeRequestBody, mergeRequestFacts } from '#domains/merge-requests/webhook.ts';
import { payloadOf } from '#domains/notes/commands.ts';
import { getNoteById } from '#domains/notes/queries.ts';
import { hookSubject, noteBodyIn } from '#domains/notes/webhook.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { HookedProject } from '#domains/projects/webhook.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { newestIn, type Scene, sampleCommit, someProject } from './scene.ts';

type Body = Record<string, unknown>;

interface ShownIssue {
  readonly project: HookedProject;
  readonly issue: IssueSnapshot;
}

const newestIssue = async (scene: Scene, confidential?: boolean): Promise<ShownIssue | null> => {
  const where = confidential === undefined ? sql`true` : sql`t.confidential = ${confidential}`;
  const found = await newestIn(scene, 'issues', 'issues_access_level', { by: sql`t.created_at`, where });
  const { ctx } = scene;
  const row = found && (await issuesByIds(ctx, [found.id])).get(found.id);
  const project = found && (await findProject(ctx, { id: found.project_id }));
  return row && project ? { project, issue: await snapshotOf(ctx, row) } : null;
};

const sampleIssue = async (scene: Scene, confidential: boolean): Promise<ShownIssue> => {
  const { caller, now } = scene;
  const project = await someProject(scene);
  const issue: IssueSnapshot = {
    id: 0,
    iid: 1,
    project_id: project.id,
    title: 'A sample issue',
    description: 'A sample for testing a hook.',
    state: 'opened',
    author_id: caller?.id ?? null,
    milestone_id: null,
    confidential,
    discussion_locked: null,
    issue_type: 'issue',
    due_date: null,
    weight: null,
    relative_position: null,
    time_estimate: 0,
    total_time_spent: 0,
    severity: 'UNKNOWN',
    health_status: null,
    closed_at: null,
    updated_by_id: null,
    last_edited_at: null,
    last_edited_by_id: null,
    created_at: now,
    updated_at: now,
    assignee_ids: [],
    labels: [],
  };
  return { project, issue };
};

/** Returns the body for the opening of the newest issue, or of a sample issue. */
export const issueSample = async (scene: Scene, confidential: boolean): Promise<Body> => {
  const { project, issue } = (await newestIssue(scene, confidential)) ?? (await sampleIssue(scene, confidential));
  return issueBodyIn(scene.ctx, project, { issue, changes: {}, action: 'open', actor_id: issue.author_id });
};

/**
 * Returns the body for the newest comment that is not internal, or for a sample comment on the newest or a sample
 * issue.
 */
export const noteSample = async (scene: Scene): Promise<Body> => (await newestNote(scene)) ?? (await sampleNote(scene));

const newestNote = async (scene: Scene): Promise<Body | null> => {
  const { ctx } = scene;
  const where = sql`not t.system and not t.confidential and (
    t.merge_request_id is not null or exists (select from issues i where i.id = t.issue_id and not i.confidential))`;
  const found = await newestIn(scene, 'notes', 'issues_access_level', { where });
  if (!found) return null;
  const { noteable, note } = await getNoteById(ctx, found.id);
  const subject = await hookSubject(ctx, noteable.project, noteable.kind, noteable.id, false);
  if (!subject) return null;
  const payload = payloadOf(noteable, note);
  return noteBodyIn(ctx, noteable.project, { note: payload, subject, action: 'create', actor_id: note.author_id });
};

const sampleNote = async (scene: Scene): Promise<Body> => {
  const { ctx, caller, now } = scene;
  const { project, issue } = (await newestIssue(scene, false)) ?? (await sampleIssue(scene, false));
  const note = {
    id: 0,
    project_id: project.id,
    noteable_kind: 'issue' as const,
    noteable_id: issue.id,
    noteable_iid: issue.iid,
    is_confidential: false,
    internal: false,
    note: 'A sample comment for testing a hook.',
    type: null,
    discussion_id: '0'.repeat(40),
    author_id: caller?.id ?? null,
    updated_by_id: null,
    resolved_at: null,
    resolved_by_id: null,
    created_at: now,
    updated_at: now,
  };
  const subject = { issue: hookIssue(ctx, project, issue) };
  return noteBodyIn(ctx, project, { note, subject, action: 'create', actor_id: note.author_id });
};

/** Returns the body for the opening of the newest merge request, or of a sample merge request. */
export const mergeRequestSample = async (scene: Scene): Promise<Body> => {
  const { ctx, caller } = scene;
  const found = await newestIn(scene, 'merge_requests', 'merge_requests_access_level', { by: sql`t.created_at` });
  const facts = (found && (await mergeRequestFacts(ctx, found.id))) ?? (await sampleMergeRequest(scene));
  const { author_id } = facts.row;
  const people = await userSummariesByIds(ctx, [author_id]);
  return mergeRequestBody(ctx, facts, { user: people.get(author_id ?? 0) ?? caller, action: 'open' });
};

const sampleMergeRequest = async (scene: Scene): Promise<MergeRequestFacts> => {
  const { caller, now } = scene;
  const project = await someProject(scene);
  return {
    row: {
      id: 0,
      iid: 1,
      project_id: project.id,
      project_path: project.full_path,
      source_project_id: project.id,
      title: 'A sample merge request',
      description: 'A sample for testing a hook.',
      author_id: caller?.id ?? null,
      source_branch: 'sample',
      target_branch: project.default_branch ?? 'main',
      state: 'opened',
      draft: false,
      merge_status: 'can_be_merged',
      merge_commit_sha: null,
      merge_user_id: null,
      merge_when_pipeline_succeeds: false,
      merge_error: null,
      merge_params: {},
      prepared_at: now,
      milestone_id: null,
      time_estimate: 0,
      created_at: now,
      updated_at: now,
      updated_by_id: null,
      last_edited_at: null,
      last_edited_by_id: null,
    },
    project,
    source: project,
    assignees: [],
    reviewers: [],
    labels: [],
    last_commit: sampleCommit(scene),
    total_time_spent: 0,
    detailed_merge_status: 'mergeable',
    blocking_discussions_resolved: true,
    first_contribution: false,
    head_pipeline_id: null,
  };
};

/** Returns the body for the newest emoji on the newest issue. Falls back to a sample emoji and a sample issue. */
export const emojiSample = async (scene: Scene): Promise<Body> => {
  const { ctx, caller, now } = scene;
  const { project, issue } = (await newestIssue(scene, false)) ?? (await sampleIssue(scene, false));
  const stored = await ctx.db
    .selectFrom('award_emoji')
    .select(['id', 'name', 'user_id', 'created_at', 'updated_at'])
    .where('issue_id', '=', issue.id)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  const award = stored ?? { id: 0, name: 'thumbsup', user_id: caller?.id ?? 0, created_at: now, updated_at: now };
  const people = await userSummariesByIds(ctx, [award.user_id]);
  const awarded: Awarded = {
    type: 'Issue',
    id: issue.id,
    url: issueWebUrl(ctx, project, issue),
    objects: { issue: hookIssue(ctx, project, issue) },
  };
  return emojiBody(ctx, project, { award, awarded, user: people.get(award.user_id) ?? caller }, 'award');
};
