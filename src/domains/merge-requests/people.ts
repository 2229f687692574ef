import { REPORTER } from '#domains/access/model.ts';
import type { Changes } from '#domains/planning/changes.ts';
import { checkPeople, type PeopleMode, peopleAfter, peopleChange } from '#domains/planning/people.ts';
import { assignableAmong, isOpenForReview, readersByProject } from '#domains/planning/readers.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Tx } from '#platform/context.ts';
import { type MergeRequestRow, mergeRequestStatsByIds } from './queries.ts';

// The assignees and reviewers of merge requests.

/**
 * Returns those active users who can read the merge requests, also inactive ones who are among `present`. Null to leave
 * the people as they are.
 */
export const readersWanted = async (
  tx: Tx,
  project: ProjectRow,
  userIds: readonly number[] | undefined,
  present: readonly number[] = [],
): Promise<readonly number[] | null> => {
  if (userIds === undefined) return null;
  const wanted = [...new Set(userIds)].filter((id) => id !== 0);
  const readers = await readersByProject(tx, [{ project, userIds: wanted }], REPORTER, isOpenForReview);
  const assignable = await assignableAmong(tx, readers.get(project.id) ?? new Set(), present);
  const found = wanted.filter((id) => assignable.has(id)).sort((a, b) => a - b);
  return found.length === 0 && wanted.length > 0 ? null : found;
};

type PeopleTable = 'merge_request_assignees' | 'merge_request_reviewers';

/** Returns false if nobody changes. @throws DomainError `invalid` for too many people */
export const setPeople = async (
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
    checkPeople(table === 'merge_request_assignees' ? 'assignee_ids' : 'reviewer_ids', after);
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

interface WantedPeople {
  /** Users who cannot read the merge request are left out. 0 stands for nobody. */
  readonly assignee_ids?: readonly number[] | undefined;
  readonly reviewer_ids?: readonly number[] | undefined;
  readonly people_mode?: PeopleMode;
}

/** Sets the people that are wanted, and adds what that changes to `changes`. */
export const changePeople = async (
  tx: Tx,
  project: ProjectRow,
  { id }: MergeRequestRow,
  review: WantedPeople,
  changes: Changes,
): Promise<void> => {
  const known = (await mergeRequestStatsByIds(tx, [id])).get(id);
  for (const kind of ['assignee', 'reviewer'] as const) {
    const before = known?.[`${kind}_ids`] ?? [];
    const given = review[`${kind}_ids`];
    const named = review.people_mode === 'remove' ? given : await readersWanted(tx, project, given, before);
    if (named == null) continue;
    const after = peopleAfter(review.people_mode, before, named);
    if (!(await setPeople(tx, `merge_request_${kind}s`, id, before, after))) continue;
    changes[`${kind}s`] = await peopleChange(tx, before, after);
  }
};
