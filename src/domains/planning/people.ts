import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import type { Changes } from './changes.ts';

// The assignees of issues, and the assignees and reviewers of merge requests.

/** The most assignees, and the most reviewers, of an issue or merge request (reference: merge-requests §1). */
const MAX_PEOPLE = 200;

/** @throws DomainError `invalid` for the field if there are too many */
export const checkPeople = (field: 'assignee_ids' | 'reviewer_ids', userIds: readonly number[]): void => {
  if (userIds.length > MAX_PEOPLE) throw invalid({ [field]: [`may name at most ${MAX_PEOPLE} users`] });
};

/** The effect of a list of people on the present ones. It replaces them by default. */
export type PeopleMode = 'replace' | 'append' | 'remove' | null | undefined;

/** Returns the people after the change, in order of id. Call it under the lock on their issue or merge request. */
export const peopleAfter = (
  mode: PeopleMode,
  present: readonly number[],
  given: readonly number[],
): readonly number[] => {
  if (mode === 'remove') return present.filter((id) => !given.includes(id));
  return [...new Set(mode === 'append' ? [...present, ...given] : given)].sort((a, b) => a - b);
};

/** Returns the change of people for events and webhook bodies. */
export const peopleChange = async (
  ctx: Context,
  before: readonly number[],
  after: readonly number[],
): Promise<Changes[string]> => {
  const people = await userSummariesByIds(ctx, [...before, ...after]);
  const shown = (ids: readonly number[]) =>
    ids.flatMap((id) => {
      const person = people.get(id);
      return person ? [hookUser(ctx, person)] : [];
    });
  return { previous: shown(before), current: shown(after) };
};
