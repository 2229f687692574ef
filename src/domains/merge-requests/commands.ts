import { sql, type Updateable } from 'kysely';
import { MAINTAINER, PRIVATE, REPORTER } from '#domains/access/model.ts';
import { type LabelChanges, setLabels, wantedLabels } from '#domains/labels/linking.ts';
import { labelsByMergeRequestIds } from '#domains/labels/queries.ts';
import { hookLabel } from '#domains/labels/webhook.ts';
import { readMilestone } from '#domains/milestones/queries.ts';
import { type Changes, differences } from '#domains/planning/changes.ts';
import { milestoneHistory, recordHistory } from '#domains/planning/history.ts';
import { readersByProject } from '#domains/planning/readers.ts';
import { checkDescription, readTitle } from '#domains/planning/texts.ts';
import { nextIid } from '#domains/projects/commands.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import { findProject, getProject, type ProjectRow } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { matching, readProtections } from '#domains/repositories/protections.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { MergeRequests } from '#platform/db/tables.ts';
import { badRequest, DomainError, forbidden, invalid, unauthenticated } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import {
  mergeRequestClosed,
  mergeRequestDeleted,
  mergeRequestOpened,
  mergeRequestReopened,
  mergeRequestUpdated,
} from './events.ts';
import { isDraftTitle, withDraftMark } from './model.ts';
import { getMergeRequest, lockMergeRequest, type MergeRequestRow, mergeRequestStatsByIds } from './queries.ts';
import { emitMergeRequest, isOpenForReview } from './snapshot.ts';
import { refreshMergeRequest, removeRefs } from './versions.ts';

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
  /** What `assignee_ids` and `reviewer_ids` do. They replace by default. */
  readonly people_mode?: 'replace' | 'append' | 'remove' | null | undefined;
}

/**
 * Opens a merge request in the target project. Its diff and its merge status follow in a job.
 *
 * @throws DomainError `forbidden`, `not_found` (Project), `invalid`, `unprocessable` if the projects or branches do not
 *   fit together, `conflict` if one is open for the same branches
 */
export const createMergeRequest = async (
  ctx: Context,
  source: ProjectRow,
  input: NewMergeRequest,
): Promise<MergeRequestRow> => {
  if (ctx.actor.userId === null) throw unauthenticated();
  const target =
    input.target_project_id === undefined || input.target_project_id === source.id
      ? source
      : await getProject(ctx, { id: input.target_project_id });
  if (target.merge_requests_access_level === 'disabled') {
    throw refusal('unprocessable', 'Target project has disabled merge requests');
  }
  requireAbility(ctx, source, source.id === target.id ? 'create_merge_request' : 'push_code');
  requireAbility(ctx, target, 'create_merge_request_in');
  if (source.id !== target.id && !(await areRelated(ctx, source, target))) {
    throw refusal('unprocessable', 'Source project is not a fork of the target project');
  }
  const title = readTitle(input.title);
  checkDescription(input.description);
  const { source_branch, target_branch } = input;
  checkBranches({ source_branch, target_branch });
  if (source.id === target.id && source_branch === target_branch) {
    throw refusal('unprocessable', "You can't use same project/branch for source and target");
  }
  const review: Review = can(ctx, target, 'admin_merge_request') ? input : {};
  const allow_collaboration =
    input.allow_collaboration === true && (await mayCollaborate(ctx, source, target, source_branch));
  return ctx.transaction(async (tx) => {
    // Taking a number locks the project's counter, so two requests for the same branches run one after the other.
    const iid = await nextIid(tx, target.id, 'merge_request');
    await requireUnique(tx, { project_id: target.id, source_project_id: source.id, source_branch, target_branch });
    const milestone_id = (await readMilestone(tx, target, review.milestone_id)) ?? null;
    const labels = await wantedLabels(tx, target, [], review);
    const { id } = await tx.db
      .insertInto('merge_requests')
      .values({
        project_id: target.id,
        source_project_id: source.id,
        iid,
        title,
        description: input.description ?? null,
        source_branch,
        target_branch,
        author_id: ctx.actor.userId,
        milestone_id,
        draft: isDraftTitle(title),
        squash: squashFor(target, input.squash),
        allow_collaboration,
        force_remove_source_branch: input.remove_source_branch ?? null,
        approvals_before_merge:
          target.access_level >= MAINTAINER || ctx.actor.isAdmin ? (review.approvals_before_merge ?? null) : null,
        merge_status: 'preparing',
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    await setPeople(tx, 'merge_request_assignees', id, [], await readersWanted(tx, target, review.assignee_ids));
    await setPeople(tx, 'merge_request_reviewers', id, [], await readersWanted(tx, target, review.reviewer_ids));
    await setLabels(tx, { merge_request_id: id }, [], labels);
    await recordHistory(tx, { merge_request_id: id }, milestoneHistory(null, milestone_id));
    const row = await getMergeRequest(tx, target, iid);
    await emitMergeRequest(tx, mergeRequestOpened, target, row, {});
    tx.enqueue(refreshMergeRequest, { id }, { key: `merge_requests.refresh:${id}` });
    return row;
  });
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
  project: ProjectRow,
  given: MergeRequestRow,
  input: MergeRequestChanges,
): Promise<MergeRequestRow> => {
  if (!canUpdateMergeRequest(ctx, project, given)) throw forbidden();
  const isReviewer = can(ctx, project, 'admin_merge_request');
  const review: Review & Pick<MergeRequestChanges, 'discussion_locked' | 'people_mode'> = isReviewer ? input : {};
  checkDescription(input.description);
  if (input.target_branch !== undefined) checkBranches({ target_branch: input.target_branch });
  const source = given.source_project_id === null ? null : await findProject(ctx, { id: given.source_project_id });
  if (input.state_event === 'reopen' && given.state === 'closed') await requireSource(ctx, given);
  const collaborates =
    input.allow_collaboration === undefined
      ? undefined
      : input.allow_collaboration &&
        source !== null &&
        (await mayCollaborate(ctx, source, project, given.source_branch));
  return ctx.transaction(async (tx) => {
    const before = await lockMergeRequest(tx, project, given);
    if (input.target_branch !== undefined && input.target_branch !== before.target_branch) requireOpenOrClosed(before);
    const title = titleAfter(before, input);
    const changes = differences(
      { ...before },
      {
        title,
        draft: title === undefined ? undefined : isDraftTitle(title),
        description: input.description,
        state: stateAfter(before, input.state_event),
        target_branch: input.target_branch,
        milestone_id: await readMilestone(tx, project, review.milestone_id),
        discussion_locked: review.discussion_locked,
        squash: input.squash === undefined ? undefined : squashFor(project, input.squash),
        force_remove_source_branch: input.remove_source_branch,
        allow_collaboration: collaborates,
        approvals_before_merge:
          project.access_level >= MAINTAINER || tx.actor.isAdmin ? review.approvals_before_merge : undefined,
      },
    );
    const values: Updateable<MergeRequests> = Object.fromEntries(
      Object.entries(changes).map(([name, { current }]) => [name, current]),
    );
    await changeLabels(tx, project, before, review, changes);
    await changePeople(tx, project, before, review, changes);
    if (Object.keys(changes).length === 0) return before;
    if (changes.target_branch || changes.state?.current === 'opened') {
      const { target_branch = before.target_branch } = input;
      if (before.source_project_id === before.project_id && target_branch === before.source_branch)
        throw refusal('unprocessable', "You can't use same project/branch for source and target");
      await requireUnique(tx, { ...before, target_branch });
    }
    const isEdited = changes.title !== undefined || changes.description !== undefined;
    const isRefreshed = changes.target_branch !== undefined || changes.state?.current === 'opened';
    await tx.db
      .updateTable('merge_requests')
      .set({
        ...values,
        ...(changes.state
          ? changes.state.current === 'closed'
            ? { closed_at: sql`now()`, closed_by_id: tx.actor.userId }
            : { closed_at: null, closed_by_id: null }
          : {}),
        ...(isRefreshed && before.merge_status !== 'preparing' ? { merge_status: 'unchecked' } : {}),
        ...(isEdited ? { last_edited_at: sql`now()`, last_edited_by_id: tx.actor.userId } : {}),
        updated_at: sql`now()`,
        updated_by_id: tx.actor.userId,
      })
      .where('id', '=', before.id)
      .execute();
    // What was approved was a change to the other branch (reference: merge-requests §1).
    if (changes.target_branch) {
      await tx.db.deleteFrom('merge_request_approvals').where('merge_request_id', '=', before.id).execute();
    }
    const after = await getMergeRequest(tx, project, before.iid);
    const { updated_at, updated_by_id, last_edited_at, last_edited_by_id } = after;
    Object.assign(
      changes,
      differences({ ...before }, { updated_at, updated_by_id, last_edited_at, last_edited_by_id }),
    );
    await recordHistory(tx, { merge_request_id: after.id }, [
      ...(changes.state ? [{ kind: 'state', state: after.state === 'closed' ? 'closed' : 'reopened' } as const] : []),
      ...milestoneHistory(before.milestone_id, after.milestone_id),
    ]);
    const kind = !changes.state
      ? mergeRequestUpdated
      : after.state === 'closed'
        ? mergeRequestClosed
        : mergeRequestReopened;
    await emitMergeRequest(tx, kind, project, after, changes);
    if (isRefreshed) {
      tx.enqueue(refreshMergeRequest, { id: after.id }, { key: `merge_requests.refresh:${after.id}` });
    }
    return after;
  });
};

/** Deletes a merge request with its versions and comments. For owners. @throws DomainError `forbidden` */
export const deleteMergeRequest = async (ctx: Context, project: ProjectRow, given: MergeRequestRow): Promise<void> => {
  requireAbility(ctx, project, 'remove_merge_request');
  await ctx.transaction(async (tx) => {
    const row = await lockMergeRequest(tx, project, given);
    // Before the deletion, while labels and people are still known.
    await emitMergeRequest(tx, mergeRequestDeleted, project, row, {});
    await tx.db.deleteFrom('merge_requests').where('id', '=', row.id).execute();
    tx.enqueue(removeRefs, { project_id: project.id, iid: row.iid });
  });
};

/** Developers, and the author while they can read merge requests. */
const canUpdateMergeRequest = (ctx: Context, project: ProjectRow, row: MergeRequestRow): boolean =>
  can(ctx, project, 'admin_merge_request') ||
  (row.author_id !== null && row.author_id === ctx.actor.userId && can(ctx, project, 'create_merge_request_in'));

/** Clients read these messages from a list. */
const refusal = (code: 'conflict' | 'unprocessable', message: string) =>
  new DomainError(code, message, { messages: [message] });

/** Forks of one project, however distant, belong to one network. */
const areRelated = async ({ db }: Context, source: ProjectRow, target: ProjectRow): Promise<boolean> => {
  const rows = await db
    .selectFrom('projects')
    .select(['id', 'fork_network_id', 'forked_from_id'])
    .where('id', 'in', [source.id, target.id])
    .execute();
  const [from, to] = [rows.find(({ id }) => id === source.id), rows.find(({ id }) => id === target.id)];
  if (!from || !to) return false;
  if (from.forked_from_id === to.id || to.forked_from_id === from.id) return true;
  return from.fork_network_id !== null && from.fork_network_id === to.fork_network_id;
};

/** Only branches of forks that the caller may push to, in projects that others can see. */
const mayCollaborate = async (
  ctx: Context,
  source: ProjectRow,
  target: ProjectRow,
  sourceBranch: string,
): Promise<boolean> => {
  if (source.id === target.id || !can(ctx, source, 'push_code')) return false;
  if (source.visibility_level <= PRIVATE || target.visibility_level <= PRIVATE) return false;
  const { branches } = await readProtections(ctx, source.id);
  return matching(branches, sourceBranch).length === 0;
};

/** Returns whether merging will squash: the project decides, or leaves it to the author with a default. */
const squashFor = ({ squash_option }: ProjectRow, wanted: boolean | undefined): boolean => {
  if (squash_option === 'always') return true;
  if (squash_option === 'never') return false;
  return wanted ?? squash_option === 'default_on';
};

/** @throws DomainError `invalid` */
const checkBranches = (branches: { readonly source_branch?: string; readonly target_branch?: string }): void => {
  const wrong = Object.entries(branches).filter(([, name]) => !validRefName(name));
  if (wrong.length > 0) throw invalid(Object.fromEntries(wrong.map(([field]) => [field, ['is invalid']])));
};

/** @throws DomainError `bad_request` if the source branch is gone */
const requireSource = async (ctx: Context, row: MergeRequestRow): Promise<void> => {
  // The branch of a fork that the caller cannot see counts too.
  const path = await ctx.db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', row.source_project_id ?? 0)
    .executeTakeFirst();
  const tip = path && (await ctx.services.git.resolve(path.disk_path, branchRef(row.source_branch)));
  if (!tip) throw badRequest('The source branch does not exist, so the merge request cannot be reopened');
};

/** @throws DomainError `bad_request` for one that is merged, or about to be */
const requireOpenOrClosed = ({ state }: MergeRequestRow): void => {
  if (state === 'merged' || state === 'locked') {
    throw badRequest(`target_branch cannot change for a merge request that is ${state}`);
  }
};

/** Undefined if the title stays. @throws DomainError `invalid` */
const titleAfter = (row: MergeRequestRow, { title, draft }: MergeRequestChanges): string | undefined => {
  if (title !== undefined) return readTitle(title);
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

interface Route extends Pick<MergeRequestRow, 'project_id' | 'source_project_id' | 'source_branch' | 'target_branch'> {
  readonly id?: number;
}

/**
 * Requires that no other open merge request has the same branches. The lock on the project's counter lasts until the
 * transaction ends.
 */
const requireUnique = async (tx: Tx, { id = 0, ...route }: Route): Promise<void> => {
  const { project_id, source_project_id, source_branch, target_branch } = route;
  if (source_project_id === null) return;
  await sql`
    select from project_counters where project_id = ${project_id} and kind = 'merge_request' for update`.execute(tx.db);
  const other = await tx.db
    .selectFrom('merge_requests')
    .select('iid')
    .where('project_id', '=', project_id)
    .where('source_project_id', '=', source_project_id)
    .where('source_branch', '=', source_branch)
    .where('target_branch', '=', target_branch)
    .where('state', 'in', ['opened', 'locked'])
    .where('id', '<>', id)
    .orderBy('iid')
    .limit(1)
    .executeTakeFirst();
  if (other)
    throw refusal('conflict', `Another open merge request already exists for this source branch: !${other.iid}`);
};

/** Returns those users who can read the merge requests; null to leave the people as they are. */
const readersWanted = async (
  tx: Tx,
  project: ProjectRow,
  userIds: readonly number[] | undefined,
): Promise<readonly number[] | null> => {
  if (userIds === undefined) return null;
  const wanted = [...new Set(userIds)].filter((id) => id !== 0);
  const readers = await readersByProject(tx, [{ project, userIds: wanted }], REPORTER, isOpenForReview);
  const found = wanted.filter((id) => readers.get(project.id)?.has(id)).sort((a, b) => a - b);
  return found.length === 0 && wanted.length > 0 ? null : found;
};

type PeopleTable = 'merge_request_assignees' | 'merge_request_reviewers';

const setPeople = async (
  tx: Tx,
  table: PeopleTable,
  merge_request_id: number,
  before: readonly number[],
  after: readonly number[] | null,
): Promise<boolean> => {
  if (after === null) return false;
  const added = after.filter((id) => !before.includes(id));
  const removed = before.filter((id) => !after.includes(id));
  if (added.length > 0) {
    await tx.db
      .insertInto(table)
      .values(added.map((user_id) => ({ merge_request_id, user_id })))
      .execute();
  }
  if (removed.length > 0) {
    await tx.db
      .deleteFrom(table)
      .where('merge_request_id', '=', merge_request_id)
      .where('user_id', 'in', removed)
      .execute();
  }
  return added.length + removed.length > 0;
};

const changePeople = async (
  tx: Tx,
  project: ProjectRow,
  { id }: MergeRequestRow,
  review: Review & Pick<MergeRequestChanges, 'people_mode'>,
  changes: Changes,
): Promise<void> => {
  const known = (await mergeRequestStatsByIds(tx, [id])).get(id);
  for (const kind of ['assignee', 'reviewer'] as const) {
    const before = known?.[`${kind}_ids`] ?? [];
    const given = review[`${kind}_ids`];
    const after =
      given && review.people_mode === 'remove'
        ? before.filter((each) => !given.includes(each))
        : await readersWanted(tx, project, given && review.people_mode === 'append' ? [...before, ...given] : given);
    if (!(await setPeople(tx, `merge_request_${kind}s`, id, before, after))) continue;
    const people = await userSummariesByIds(tx, [...before, ...(after ?? [])]);
    const shown = (ids: readonly number[]) =>
      ids.flatMap((each) => {
        const person = people.get(each);
        return person ? [hookUser(tx, person)] : [];
      });
    changes[`${kind}s`] = { previous: shown(before), current: shown(after ?? []) };
  }
};

const changeLabels = async (
  tx: Tx,
  project: ProjectRow,
  { id }: MergeRequestRow,
  review: Review,
  changes: Changes,
): Promise<void> => {
  const before = (await labelsByMergeRequestIds(tx, [id])).get(id) ?? [];
  const after = await wantedLabels(tx, project, before, review);
  if (await setLabels(tx, { merge_request_id: id }, before, after)) {
    changes.labels = { previous: before.map(hookLabel), current: after.map(hookLabel) };
  }
};
