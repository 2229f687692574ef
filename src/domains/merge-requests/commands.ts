import type { Updateable } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { changeLabels, type LabelChanges, setLabels, wantedLabels } from '#domains/labels/linking.ts';
import { readMilestone } from '#domains/milestones/queries.ts';
import { changeStamps, differences, newValues } from '#domains/planning/changes.ts';
import { milestoneHistory, recordHistory, updateHistory } from '#domains/planning/history.ts';
import type { PeopleMode } from '#domains/planning/people.ts';
import { readQuickActions } from '#domains/planning/quick-changes.ts';
import { setSubscription } from '#domains/planning/subscriptions.ts';
import { recordChangeNotes } from '#domains/planning/system-notes.ts';
import { checkDescription, readTitle } from '#domains/planning/texts.ts';
import { changeSpentTime, type SpentTime } from '#domains/planning/time-tracking.ts';
import { nextIid } from '#domains/projects/insert.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import { findProject, getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { MergeRequests } from '#platform/db/tables.ts';
import { badRequest, forbidden, unauthenticated } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import {
  areRelated,
  checkBranches,
  mayCollaborate,
  refusal,
  requireRelated,
  requireSource,
  requireUnique,
  unrelated,
} from './ends.ts';
import { mergeRequestClosed, mergeRequestOpened, mergeRequestReopened, mergeRequestUpdated } from './events.ts';
import { lockInProject } from './locking.ts';
import { endAutoMerge } from './merging/auto-merge.ts';
import { isDraftTitle, squashOnMerge, withDraftMark } from './model.ts';
import { changePeople, readersWanted, setPeople } from './people.ts';
import { requestPipelineForTarget } from './pipelines/of-target.ts';
import { getMergeRequest, type MergeRequestRow, mergeRequestStatsByIds } from './queries.ts';
import { removeMergeRefLater } from './refs.ts';
import { emitMergeRequest } from './snapshot.ts';
import { refreshLater } from './versions/refresh.ts';
import { withdrawAll } from './withdrawing.ts';

/** Attributes for Developers of the target project. For other callers they are ignored, as v4 clients expect. */
interface Review extends LabelChanges {
  /** Users who cannot read the merge request are left out. 0 stands for nobody. */
  readonly assignee_ids?: readonly number[] | undefined;
  readonly reviewer_ids?: readonly number[] | undefined;
  /** 0 and null remove the milestone. */
  readonly milestone_id?: number | null | undefined;
  readonly approvals_before_merge?: number | null | undefined;
}

/** Attributes that the author may set too. */
interface Proposal {
  readonly description?: string | null | undefined;
  readonly remove_source_branch?: boolean | null | undefined;
  readonly squash?: boolean | undefined;
  readonly allow_collaboration?: boolean | undefined;
  /** The earliest time to merge. Null removes it. */
  readonly merge_after?: string | null | undefined;
}

export interface NewMergeRequest extends Review, Proposal {
  readonly title: string;
  readonly source_branch: string;
  readonly target_branch: string;
  /** The source project by default. */
  readonly target_project_id?: number | undefined;
}

export interface MergeRequestChanges extends Review, Proposal {
  readonly title?: string | undefined;
  readonly target_branch?: string | undefined;
  readonly state_event?: 'close' | 'reopen' | undefined;
  readonly discussion_locked?: boolean | null | undefined;
  /** Marks the title. */
  readonly draft?: boolean | undefined;
  /** The effect of `assignee_ids` and `reviewer_ids`. */
  readonly people_mode?: PeopleMode;
  /** In seconds. */
  readonly time_estimate?: number | undefined;
  readonly spent_time?: SpentTime | undefined;
  /** The id of a logged time of the merge request. */
  readonly delete_timelog?: number | undefined;
}

/** A new merge request with what quick actions set. */
type QuickMergeRequest = NewMergeRequest & Pick<MergeRequestChanges, 'discussion_locked' | 'time_estimate' | 'draft'>;

/** Attributes that only Developers of the target project can change later. */
type ReviewChanges = Review &
  Pick<MergeRequestChanges, 'discussion_locked' | 'people_mode' | 'time_estimate' | 'spent_time' | 'delete_timelog'>;

/**
 * Opens a merge request in the target project. Its diff and its merge status follow in a job.
 *
 * @throws DomainError `forbidden`, `not_found` (Project), `invalid`, `unprocessable` if the projects or branches do not
 *   fit together, `conflict` if one is open for the same branches
 */
export const createMergeRequest = async (
  ctx: Context,
  source: ProjectRow,
  given: NewMergeRequest,
): Promise<MergeRequestRow> => {
  if (ctx.actor.userId === null) throw unauthenticated();
  const seenTarget =
    given.target_project_id === undefined || given.target_project_id === source.id
      ? source
      : await getProject(ctx, { id: given.target_project_id });
  await requireEnds(ctx, source, seenTarget);
  checkDescription(given.description);
  const quick = await readQuickActions(ctx, seenTarget, 'merge_request', given.description, {
    isAuthor: true,
    people: async () => ({ assignee_ids: given.assignee_ids ?? [], reviewer_ids: given.reviewer_ids ?? [] }),
  });
  const input: QuickMergeRequest = quick ? { ...given, description: quick.text, ...quick.changes } : given;
  const title = titleAfter({ title: input.title }, { draft: input.draft }) ?? readTitle(input.title);
  const { source_branch, target_branch } = input;
  checkBranches({ source_branch, target_branch });
  const ends: Ends = { project_id: seenTarget.id, source_project_id: source.id, source_branch, target_branch };
  requireOtherBranch(ends);
  const allow_collaboration =
    input.allow_collaboration === true && (await mayCollaborate(ctx, source, seenTarget, source_branch));
  const head = await ctx.services.git.resolve(source.disk_path, branchRef(source_branch));
  const opened = await ctx.transaction(async (tx) => {
    // Roles may have been lost since the check above.
    const target = await lockEnds(tx, source, seenTarget);
    const review: NewReview = can(tx, target, 'admin_merge_request') ? input : {};
    // Taking a number locks the project's counter, so two requests for the same branches run one after the other.
    const iid = await nextIid(tx, target.id, 'merge_request');
    await requireUnique(tx, ends);
    const milestone_id = (await readMilestone(tx, target, review.milestone_id)) ?? null;
    const labels = await wantedLabels(tx, target, [], review);
    const { id } = await tx.db
      .insertInto('merge_requests')
      .values({
        ...ends,
        iid,
        title,
        description: input.description ?? null,
        author_id: ctx.actor.userId,
        milestone_id,
        draft: isDraftTitle(title),
        squash: squashFor(target, input.squash),
        allow_collaboration,
        force_remove_source_branch: input.remove_source_branch ?? null,
        merge_after: input.merge_after ?? null,
        approvals_before_merge:
          target.access_level >= MAINTAINER || ctx.actor.isAdmin ? (review.approvals_before_merge ?? null) : null,
        merge_status: 'preparing',
        // Tools merge or approve by the `sha` of the answer. The version of it follows.
        diff_head_sha: head,
        discussion_locked: review.discussion_locked ?? null,
        time_estimate: review.time_estimate ?? 0,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    await setPeople(tx, 'merge_request_assignees', id, [], await readersWanted(tx, target, review.assignee_ids));
    await setPeople(tx, 'merge_request_reviewers', id, [], await readersWanted(tx, target, review.reviewer_ids));
    await setLabels(tx, { merge_request_id: id }, [], labels);
    await recordHistory(tx, { merge_request_id: id }, milestoneHistory(null, milestone_id));
    if (quick) await changeSpentTime(tx, { merge_request_id: id }, quick.changes);
    if (quick?.subscribed !== undefined) await setSubscription(tx, 'merge_request', id, quick.subscribed);
    const row = await getMergeRequest(tx, target, iid);
    await emitMergeRequest(tx, mergeRequestOpened, target, row, {});
    refreshLater(tx, id);
    return row;
  });
  return quick?.changes.state_event === 'close'
    ? updateMergeRequest(ctx, seenTarget, opened, { state_event: 'close' })
    : opened;
};

type NewReview = Review & Pick<ReviewChanges, 'discussion_locked' | 'time_estimate'>;

/** @throws DomainError unless the caller may propose changes of the source project to the target project */
const requireEnds = async (ctx: Context, source: ProjectRow, target: ProjectRow): Promise<void> => {
  if (target.merge_requests_access_level === 'disabled') {
    throw refusal('unprocessable', 'Target project has disabled merge requests');
  }
  requireAbility(ctx, source, source.id === target.id ? 'create_merge_request' : 'push_code');
  requireAbility(ctx, target, 'create_merge_request_in');
  if (source.id !== target.id && !(await areRelated(ctx, source, target))) {
    throw unrelated();
  }
};

/**
 * Locks both projects against changes of roles, and their relation, and returns the target. @throws as `requireEnds` for
 * what was lost
 */
const lockEnds = async (tx: Tx, source: ProjectRow, seenTarget: ProjectRow): Promise<ProjectRow> => {
  await requireRelated(tx, source, seenTarget);
  const target = await lockProjectFor(tx, seenTarget, 'create_merge_request_in', 'shared');
  if (source.id === target.id) requireAbility(tx, target, 'create_merge_request');
  else await lockProjectFor(tx, source, 'push_code', 'shared');
  return target;
};

/**
 * Sets how many approvals a merge request needs.
 *
 * @throws DomainError as `requireAbility` unless the caller maintains the project, and as `updateMergeRequest`
 */
export const setApprovalsRequired = (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  approvals_before_merge: number,
): Promise<MergeRequestRow> => {
  requireAbility(ctx, project, 'admin_approval_rule');
  return updateMergeRequest(ctx, project, row, { approvals_before_merge });
};

/**
 * Changes, closes or reopens a merge request. Authors below Developer may change their proposal: title, description,
 * target branch, state, and what happens to the source branch.
 *
 * @throws DomainError `forbidden`, `invalid`, `conflict` if another one is open for the same branches, `bad_request` for
 *   a state that cannot change
 */
export const updateMergeRequest = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
  sent: MergeRequestChanges,
): Promise<MergeRequestRow> => {
  if (!canUpdateMergeRequest(ctx, seen, given)) throw forbidden();
  checkDescription(sent.description);
  const quick = await quickActionsOfUpdate(ctx, seen, given, sent);
  const input: MergeRequestChanges = quick ? { ...sent, description: quick.text, ...quick.changes } : sent;
  if (input.target_branch !== undefined) checkBranches({ target_branch: input.target_branch });
  const source = given.source_project_id === null ? null : await findProject(ctx, { id: given.source_project_id });
  if (input.state_event === 'reopen' && given.state === 'closed') await requireSource(ctx, given);
  const collaborates =
    input.allow_collaboration === undefined
      ? undefined
      : input.allow_collaboration && source !== null && (await mayCollaborate(ctx, source, seen, given.source_branch));
  return ctx.transaction(async (tx) => {
    if (input.state_event === 'reopen' && given.state === 'closed' && given.source_project_id !== null)
      await requireRelated(tx, { id: given.source_project_id }, seen);
    const { project, row: before } = await lockInProject(tx, seen, given);
    if (!canUpdateMergeRequest(tx, project, before)) throw forbidden();
    const review: ReviewChanges = can(tx, project, 'admin_merge_request') ? input : {};
    if (input.target_branch !== undefined && input.target_branch !== before.target_branch) requireOpenOrClosed(before);
    const changes = await changedColumns(tx, project, before, { ...input, allow_collaboration: collaborates }, review);
    const values: Updateable<MergeRequests> = newValues(changes);
    const labels = await changeLabels(tx, project, { merge_request_id: before.id }, review);
    if (labels) changes.labels = labels;
    if (quick?.subscribed !== undefined) await setSubscription(tx, 'merge_request', before.id, quick.subscribed);
    const spent = await changeSpentTime(tx, { merge_request_id: before.id }, review);
    if (spent) changes.total_time_spent = spent;
    await changePeople(tx, project, before, review, changes);
    if (Object.keys(changes).length === 0) return before;
    const isRefreshed = changes.target_branch !== undefined || changes.state?.current === 'opened';
    if (isRefreshed) {
      const ends = { ...before, target_branch: input.target_branch ?? before.target_branch };
      requireOtherBranch(ends);
      await requireUnique(tx, ends);
    }
    // The approvals were of a change to the other branch (reference: merge-requests §1).
    if (changes.target_branch) await withdrawAll(tx, project, before);
    await tx.db
      .updateTable('merge_requests')
      .set({
        ...values,
        ...changeStamps(tx, changes),
        ...(isRefreshed && before.merge_status !== 'preparing' ? { merge_status: 'unchecked' } : {}),
      })
      .where('id', '=', before.id)
      .execute();
    const after = await getMergeRequest(tx, project, before.iid);
    const { updated_at, updated_by_id, last_edited_at, last_edited_by_id } = after;
    Object.assign(
      changes,
      differences({ ...before }, { updated_at, updated_by_id, last_edited_at, last_edited_by_id }),
    );
    await recordHistory(tx, { merge_request_id: after.id }, updateHistory(before, after));
    await recordChangeNotes(tx, { merge_request_id: after.id }, changes);
    const kind = !changes.state
      ? mergeRequestUpdated
      : after.state === 'closed'
        ? mergeRequestClosed
        : mergeRequestReopened;
    await emitMergeRequest(tx, kind, project, after, changes);
    if (isRefreshed) {
      refreshLater(tx, after.id);
    }
    if (changes.target_branch) {
      // If the target branch was deleted, the caller is the hub, and people start the pipeline.
      requestPipelineForTarget(tx, after);
      return endAutoMerge(tx, project, after, 'the target branch was changed');
    }
    if (changes.state?.current === 'closed') removeMergeRefLater(tx, after.id);
    if (after.state === 'closed') return endAutoMerge(tx, project, after, 'the merge request was closed');
    return after;
  });
};

/** Reads the quick actions of a changed description. */
const quickActionsOfUpdate = (
  ctx: Context,
  project: ProjectRow,
  { id, author_id }: MergeRequestRow,
  { description, assignee_ids, reviewer_ids }: MergeRequestChanges,
) =>
  readQuickActions(ctx, project, 'merge_request', description, {
    isAuthor: author_id === ctx.actor.userId,
    people: async () => {
      const known = (await mergeRequestStatsByIds(ctx, [id])).get(id);
      return {
        assignee_ids: assignee_ids ?? known?.assignee_ids ?? [],
        reviewer_ids: reviewer_ids ?? known?.reviewer_ids ?? [],
      };
    },
  });

/** Returns how the columns of the merge request change. */
const changedColumns = async (
  tx: Tx,
  project: ProjectRow,
  before: MergeRequestRow,
  input: MergeRequestChanges,
  review: ReviewChanges,
): Promise<ReturnType<typeof differences>> => {
  const title = titleAfter(before, input);
  const isMaintainer = project.access_level >= MAINTAINER || tx.actor.isAdmin;
  return differences(
    { ...before, merge_after: isoTime(before.merge_after) },
    {
      title,
      draft: title === undefined ? undefined : isDraftTitle(title),
      description: input.description,
      state: stateAfter(before, input.state_event),
      target_branch: input.target_branch,
      milestone_id: await readMilestone(tx, project, review.milestone_id),
      discussion_locked: review.discussion_locked,
      time_estimate: review.time_estimate,
      squash: input.squash === undefined ? undefined : squashFor(project, input.squash),
      force_remove_source_branch: input.remove_source_branch,
      merge_after: input.merge_after,
      allow_collaboration: input.allow_collaboration,
      approvals_before_merge: isMaintainer ? review.approvals_before_merge : undefined,
    },
  );
};

type Ends = Pick<MergeRequestRow, 'project_id' | 'source_project_id' | 'source_branch' | 'target_branch'>;

/** @throws DomainError `unprocessable` if source and target are the same branch */
const requireOtherBranch = ({ project_id, source_project_id, source_branch, target_branch }: Ends): void => {
  if (source_project_id === project_id && source_branch === target_branch)
    throw refusal('unprocessable', "You can't use same project/branch for source and target");
};

/** Developers, and the author while they can read merge requests. */
export const canUpdateMergeRequest = (
  ctx: Pick<Context, 'actor'>,
  project: ProjectRow,
  row: MergeRequestRow,
): boolean =>
  can(ctx, project, 'admin_merge_request') ||
  (row.author_id !== null && row.author_id === ctx.actor.userId && can(ctx, project, 'create_merge_request_in'));

/** Returns whether merging will squash: the project decides, or leaves it to the author with a default. */
const squashFor = (project: ProjectRow, wanted: boolean | undefined): boolean =>
  squashOnMerge({ squash: wanted ?? project.squash_option === 'default_on' }, project);

/** @throws DomainError `bad_request` for one that is merged, or about to be */
const requireOpenOrClosed = ({ state }: MergeRequestRow): void => {
  if (state === 'merged' || state === 'locked') {
    throw badRequest(`target_branch cannot change for a merge request that is ${state}`);
  }
};

/** Undefined if the title stays. @throws DomainError `invalid` */
const titleAfter = (
  row: Pick<MergeRequestRow, 'title'>,
  { title, draft }: Pick<MergeRequestChanges, 'title' | 'draft'>,
): string | undefined => {
  if (title !== undefined) return readTitle(draft === undefined ? title : withDraftMark(title, draft));
  return draft === undefined ? undefined : readTitle(withDraftMark(row.title, draft));
};

/** Undefined if the state stays. @throws DomainError `bad_request` for a merged one */
const stateAfter = (row: MergeRequestRow, event: MergeRequestChanges['state_event']) => {
  if (event === undefined) return undefined;
  if (row.state === 'merged' || row.state === 'locked') {
    throw badRequest(`state_event is not allowed for a merge request that is ${row.state}`);
  }
  return event === 'close' ? 'closed' : 'opened';
};
