import { sql } from 'kysely';
import { REPORTER } from '#domains/access/model.ts';
import { usersWithGroupLevel, usersWithProjectLevel } from '#domains/access/queries.ts';
import { namespacesByIds } from '#domains/groups/queries.ts';
import { userIdsByUsernames } from '#domains/planning/readers.ts';
import type { Tx } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import type { ApprovalRule } from './model.ts';
import type { RulePlace } from './policy.ts';

/** The approvers of a rule, and the branches that it is for. Absent attributes stay unchanged. */
export interface ApproverChanges {
  readonly user_ids?: readonly number[] | undefined;
  /** Added to `user_ids`. */
  readonly usernames?: readonly string[] | undefined;
  readonly group_ids?: readonly number[] | undefined;
  /** Groups of the rule that the caller cannot see stay, unless this removes them. */
  readonly remove_hidden_groups?: boolean | undefined;
  readonly protected_branch_ids?: readonly number[] | undefined;
}

type Approvers = Pick<ApprovalRule, 'user_ids' | 'group_ids' | 'protected_branch_ids'>;

/**
 * Returns the users, groups and protected branches of a rule after the changes, each ascending. Those that are in the
 * rule already may stay.
 *
 * @throws DomainError `invalid` for users who are no Reporters of the place, groups that the caller cannot see, and
 * branches that the project does not protect. Unknown ids are refused in the same words.
 */
export const approversAfter = async (
  tx: Tx,
  place: RulePlace,
  before: Approvers,
  changes: ApproverChanges,
): Promise<Approvers> => {
  const user_ids = await usersAfter(tx, place, before.user_ids, changes);
  const group_ids = await groupsAfter(tx, before.group_ids, changes);
  const protected_branch_ids =
    changes.protected_branch_ids === undefined ? before.protected_branch_ids : ascending(changes.protected_branch_ids);
  await requireBranches(
    tx,
    place,
    protected_branch_ids.filter((id) => !before.protected_branch_ids.includes(id)),
  );
  return { user_ids, group_ids, protected_branch_ids };
};

const usersAfter = async (
  tx: Tx,
  place: RulePlace,
  before: readonly number[],
  { user_ids, usernames }: ApproverChanges,
): Promise<readonly number[]> => {
  if (user_ids === undefined && usernames === undefined) return before;
  const named = await userIdsByUsernames(tx, usernames ?? [], 'usernames');
  const wanted = ascending([...(user_ids ?? []), ...named]);
  const added = wanted.filter((id) => !before.includes(id));
  if (added.length === 0) return wanted;
  const members =
    place.kind === 'group'
      ? await usersWithGroupLevel(tx, place.group.id, added, REPORTER)
      : await usersWithProjectLevel(tx, place.project.id, added, REPORTER);
  const strangers = added.filter((id) => !members.has(id));
  if (strangers.length > 0) {
    const where = place.kind === 'group' ? 'group' : 'project';
    throw invalid({ user_ids: [`must be Reporters or above in the ${where}: ${strangers.join(', ')}`] });
  }
  return wanted;
};

const groupsAfter = async (
  tx: Tx,
  before: readonly number[],
  { group_ids, remove_hidden_groups }: ApproverChanges,
): Promise<readonly number[]> => {
  if (group_ids === undefined && !remove_hidden_groups) return before;
  const seen = await namespacesByIds(tx, [...before, ...(group_ids ?? [])]);
  const unknown = (group_ids ?? []).filter((id) => seen.get(id)?.kind !== 'group' && !before.includes(id));
  if (unknown.length > 0) throw invalid({ group_ids: [`must be groups that you can see: ${unknown.join(', ')}`] });
  const hidden = before.filter((id) => !seen.has(id));
  return ascending([...(group_ids ?? before).filter((id) => seen.has(id)), ...(remove_hidden_groups ? [] : hidden)]);
};

const requireBranches = async (tx: Tx, place: RulePlace, ids: readonly number[]): Promise<void> => {
  if (ids.length === 0) return;
  const rows =
    place.kind === 'project'
      ? await tx.db
          .selectFrom('protected_branches')
          .select('id')
          .where('project_id', '=', place.project.id)
          .where(sql<boolean>`id = any (${ids}::bigint[])`)
          .execute()
      : [];
  const unknown = ids.filter((id) => !rows.some((row) => row.id === id));
  if (unknown.length > 0) {
    throw invalid({ protected_branch_ids: [`must be protected branches of the project: ${unknown.join(', ')}`] });
  }
};

const ascending = (ids: readonly number[]): readonly number[] => [...new Set(ids)].sort((a, b) => a - b);
