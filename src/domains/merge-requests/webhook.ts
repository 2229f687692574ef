import type { HookLabel } from '#domains/labels/webhook.ts';
import { hookChanges } from '#domains/planning/changes.ts';
import { humanDuration, timeChange } from '#domains/planning/time-tracking.ts';
import { findProject, findProjectWith, type ProjectRow } from '#domains/projects/queries.ts';
import {
  HOOK_PARTS,
  type HookedProject,
  hookMarkdown,
  hookProject,
  hookRepository,
} from '#domains/projects/webhook.ts';
import { hookCommit } from '#domains/repositories/webhook.ts';
import { type UserSummary, userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';
import type { Commit } from '#platform/git/objects.ts';
import { isoTime } from '#platform/time.ts';
import type { ApprovalPayload, MergeRequestPayload, MergeRequestSnapshot } from './events.ts';
import { mergeRequestWebUrl, shownMergeStatus } from './model.ts';
import { type MergeRequestRow, mergeRequestsByIds } from './queries.ts';
import { snapshotsOf } from './snapshot.ts';

/** The columns of a merge request that hook bodies use. */
export type HookedMergeRequest = Pick<
  MergeRequestRow,
  | 'id'
  | 'iid'
  | 'title'
  | 'description'
  | 'author_id'
  | 'source_branch'
  | 'target_branch'
  | 'source_project_id'
  | 'project_id'
  | 'project_path'
  | 'state'
  | 'draft'
  | 'merge_status'
  | 'merge_commit_sha'
  | 'merge_user_id'
  | 'merge_when_pipeline_succeeds'
  | 'merge_error'
  | 'merge_params'
  | 'prepared_at'
  | 'milestone_id'
  | 'time_estimate'
  | 'created_at'
  | 'updated_at'
  | 'updated_by_id'
  | 'last_edited_at'
  | 'last_edited_by_id'
>;

/** The data for hook bodies of merge requests. */
export interface MergeRequestFacts {
  readonly row: HookedMergeRequest;
  /** The target project. `source` is null if it no longer exists. */
  readonly project: HookedProject;
  readonly source: HookedProject | null;
  readonly assignees: readonly UserSummary[];
  readonly reviewers: readonly UserSummary[];
  readonly labels: readonly HookLabel[];
  readonly last_commit: Commit | null;
  readonly total_time_spent: number;
  readonly detailed_merge_status: string;
  readonly blocking_discussions_resolved: boolean;
  readonly first_contribution: boolean;
  readonly head_pipeline_id: number | null;
}

type Action = 'open' | 'update' | 'close' | 'reopen' | 'merge' | 'approved' | 'unapproved' | 'approval' | 'unapproval';

/** Reads the data as the caller; null if they cannot see the merge request or its project. */
export const mergeRequestFacts = async (ctx: Context, id: number): Promise<MergeRequestFacts | null> => {
  const row = (await mergeRequestsByIds(ctx, [id])).get(id);
  const project = row && (await findProject(ctx, { id: row.project_id }));
  if (!row || !project) return null;
  const [snapshot] = await snapshotsOf(ctx, [{ row, project }]);
  return snapshot ? factsOf(ctx, project, snapshot) : null;
};

/** Builds the body of an event (reference: webhooks §3); null if the project has been deleted. */
export const bodyOf =
  <P extends MergeRequestPayload & Pick<Partial<ApprovalPayload>, 'system_action'>>(
    which: Action | ((payload: P) => Action),
  ) =>
  async (ctx: Context, event: EventRow, payload: P): Promise<Record<string, unknown> | null> => {
    const { merge_request: snapshot, changes, oldrev, system_action, by_id } = payload;
    const action = typeof which === 'string' ? which : which(payload);
    const project = await findProject(ctx, { id: snapshot.project_id });
    if (!project) return null;
    // Events of jobs have no actor, but somebody merged or pushed.
    const actor = event.actor_id ?? by_id ?? (action === 'merge' ? snapshot.merge_user_id : null) ?? 0;
    const [facts, people] = await Promise.all([factsOf(ctx, project, snapshot), userSummariesByIds(ctx, [actor])]);
    return mergeRequestBody(ctx, facts, {
      user: people.get(actor) ?? null,
      action,
      changes: hookChanges(changes, STATE_IDS),
      time: timeChange(changes),
      oldrev,
      system_action,
    });
  };

/** Returns the data for the body of a recorded merge request. */
const factsOf = async (
  ctx: Context,
  project: ProjectRow,
  snapshot: MergeRequestSnapshot,
): Promise<MergeRequestFacts> => {
  const { assignee_ids, reviewer_ids, source_project_id, diff_head_sha } = snapshot;
  const isElsewhere = source_project_id !== null && source_project_id !== project.id;
  const [people, source, [last_commit = null]] = await Promise.all([
    userSummariesByIds(ctx, [...assignee_ids, ...reviewer_ids]),
    isElsewhere ? findProjectWith(ctx, { id: source_project_id }, HOOK_PARTS) : project,
    ctx.services.git.readCommits(project.disk_path, isOid(diff_head_sha) ? [diff_head_sha] : []),
  ]);
  const among = (ids: readonly number[]) => ids.flatMap((each) => people.get(each) ?? []);
  return {
    ...snapshot,
    row: snapshot,
    project,
    source,
    assignees: among(assignee_ids),
    reviewers: among(reviewer_ids),
    last_commit,
  };
};

/** The body of merge request events (reference: webhooks §3). */
export const mergeRequestBody = (
  ctx: Context,
  facts: MergeRequestFacts,
  { user, action, changes = {}, time, oldrev, system_action }: BodyOptions,
): Record<string, unknown> => ({
  object_kind: 'merge_request',
  event_type: 'merge_request',
  user: user && hookUser(ctx, user),
  project: hookProject(ctx, facts.project),
  object_attributes: {
    ...hookMergeRequest(ctx, facts),
    ...time,
    action,
    ...(oldrev === undefined ? {} : { oldrev }),
    ...(system_action === undefined ? {} : { system: true, system_action }),
  },
  labels: facts.labels,
  changes,
  repository: hookRepository(ctx, facts.project),
  ...(facts.assignees.length > 0 ? { assignees: facts.assignees.map((each) => hookUser(ctx, each)) } : {}),
  ...(facts.reviewers.length > 0 ? { reviewers: facts.reviewers.map((each) => hookUser(ctx, each)) } : {}),
});

interface BodyOptions {
  readonly user: UserSummary | null;
  readonly action: Action;
  readonly changes?: Record<string, unknown>;
  /** Time that was spent or taken back. */
  readonly time?: ReturnType<typeof timeChange>;
  /** For new commits: the head before them. */
  readonly oldrev?: string | undefined;
  /** For what the hub did by itself: why. */
  readonly system_action?: string | undefined;
}

/** Imported rows may hold any text. */
const isOid = (sha: string | null): sha is string => sha !== null && /^[0-9a-f]{40}$/.test(sha);

const STATE_IDS: Readonly<Record<string, number>> = { opened: 1, closed: 2, merged: 3, locked: 4 };

/** The attributes of a merge request in webhook bodies: in its own events and in comments on it. */
export const hookMergeRequest = (ctx: Context, facts: MergeRequestFacts) => {
  const { row, project, source, assignees, reviewers, last_commit } = facts;
  return {
    id: row.id,
    iid: row.iid,
    title: row.title,
    description: hookMarkdown(ctx, row.project_id, row.description),
    author_id: row.author_id,
    assignee_id: assignees[0]?.id ?? null,
    assignee_ids: assignees.map(({ id }) => id),
    reviewer_ids: reviewers.map(({ id }) => id),
    source_branch: row.source_branch,
    target_branch: row.target_branch,
    source_project_id: row.source_project_id,
    target_project_id: row.project_id,
    source: source && hookProject(ctx, source),
    target: hookProject(ctx, project),
    last_commit: last_commit && hookCommit(ctx, project, last_commit),
    state: row.state,
    state_id: STATE_IDS[row.state] ?? 1,
    draft: row.draft,
    work_in_progress: row.draft,
    merge_status: shownMergeStatus(row),
    detailed_merge_status: facts.detailed_merge_status,
    merge_commit_sha: row.merge_commit_sha,
    merge_user_id: row.merge_user_id,
    merge_when_pipeline_succeeds: row.merge_when_pipeline_succeeds,
    merge_error: row.merge_error,
    merge_params: row.merge_params,
    blocking_discussions_resolved: facts.blocking_discussions_resolved,
    first_contribution: facts.first_contribution,
    prepared_at: isoTime(row.prepared_at),
    milestone_id: row.milestone_id,
    head_pipeline_id: facts.head_pipeline_id,
    time_estimate: row.time_estimate,
    total_time_spent: facts.total_time_spent,
    time_change: 0,
    human_time_estimate: humanDuration(row.time_estimate),
    human_total_time_spent: humanDuration(facts.total_time_spent),
    human_time_change: null,
    labels: facts.labels,
    url: mergeRequestWebUrl(ctx, row),
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
    updated_by_id: row.updated_by_id,
    last_edited_at: isoTime(row.last_edited_at),
    last_edited_by_id: row.last_edited_by_id,
  };
};
