import { sql } from 'kysely';
import { DEVELOPER, REPORTER } from '#domains/access/model.ts';
import { usersByProjectLevel } from '#domains/access/queries.ts';
import { granted, MEMBER_ROLES } from '#domains/access/roles.ts';
import { isOpenForReview, readersByProject } from '#domains/planning/readers.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import { userIdsByAddresses } from '#domains/users/addresses.ts';
import type { Context } from '#platform/context.ts';
import type { ApprovalRule, ApprovalSettings } from './model.ts';
import { rulesByIds } from './queries.ts';

/** The people of a rule, stored or derived. `id` distinguishes the rules of one call. */
export type Approvers = Pick<ApprovalRule, 'id' | 'user_ids' | 'group_ids'>;

/**
 * Returns the ids of the users who can approve by each rule as of now, ascending: active users whom it names, if they
 * are still Reporters of the project, and active members of its groups who can read the merge requests of the project.
 * For rules of a group, leave the project out: all its active users and members count.
 */
export const eligibleApprovers = async (
  ctx: Pick<Context, 'db'>,
  asked: readonly { readonly project: ProjectRow | null; readonly rules: readonly Approvers[] }[],
): Promise<ReadonlyMap<number, readonly number[]>> => {
  const rules = asked.flatMap(({ rules }) => rules);
  const userIds = [...new Set(rules.flatMap(({ user_ids }) => user_ids))];
  const groupIds = [...new Set(rules.flatMap(({ group_ids }) => group_ids))];
  if (userIds.length + groupIds.length === 0) return new Map(rules.map(({ id }) => [id, []]));
  const members = granted(MEMBER_ROLES, sql`${MEMBER_ROLES.place} as group_id, ${MEMBER_ROLES.user} as user_id`, {
    places: sql`${groupIds}::bigint[]`,
  });
  const { rows } = await sql<{ group_id: number | null; user_id: number }>`
    select distinct found.group_id, found.user_id
    from (${members} union all select null, unnest(${userIds}::bigint[])) as found (group_id, user_id)
    join users u on u.id = found.user_id and u.state = 'active'
    order by found.user_id`.execute(ctx.db);
  const byGroup = Map.groupBy(rows, ({ group_id }) => group_id);
  const active = new Set(byGroup.get(null)?.map(({ user_id }) => user_id));
  const namedBy = ({ user_ids }: Approvers): number[] => user_ids.filter((id) => active.has(id));
  const membersOf = ({ group_ids }: Approvers): number[] =>
    group_ids.flatMap((id) => byGroup.get(id)?.map(({ user_id }) => user_id) ?? []);
  const allowed = (usersOf: (rule: Approvers) => number[], isOpen: (project: ProjectRow) => boolean) =>
    readersByProject(
      ctx,
      asked.flatMap(({ project, rules }) =>
        project ? [{ project, userIds: [...new Set(rules.flatMap(usersOf))] }] : [],
      ),
      REPORTER,
      isOpen,
    );
  const [reporters, readers] = await Promise.all([allowed(namedBy, () => false), allowed(membersOf, isOpenForReview)]);
  const eligible = asked.flatMap(({ project, rules }) =>
    rules.map((rule): [number, readonly number[]] => {
      const named = namedBy(rule).filter((id) => !project || reporters.get(project.id)?.has(id));
      const members = membersOf(rule).filter((id) => !project || readers.get(project.id)?.has(id));
      return [rule.id, [...new Set([...named, ...members])].sort((a, b) => a - b)];
    }),
  );
  return new Map(eligible);
};

/** The same for stored rules by their ids. Rules of projects that the caller cannot see are absent. */
export const eligibleByRules = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly number[]>> => {
  const rules = [...(await rulesByIds(ctx, ids)).values()];
  const targets = await ctx.db
    .selectFrom('merge_requests')
    .select(['id', 'project_id'])
    .where(sql<boolean>`id = any (${rules.flatMap(({ merge_request_id }) => merge_request_id ?? [])}::bigint[])`)
    .execute();
  const targetOf = new Map(targets.map(({ id, project_id }) => [id, project_id]));
  const projectOf = (rule: ApprovalRule) => rule.project_id ?? targetOf.get(rule.merge_request_id ?? 0) ?? null;
  const byProject = Map.groupBy(rules, projectOf);
  const projects = await projectsByIds(
    ctx,
    [...byProject.keys()].flatMap((id) => id ?? []),
    ROW,
  );
  return eligibleApprovers(
    ctx,
    [...byProject].flatMap(([id, own]) => {
      const project = id === null ? null : projects.get(id);
      return project === undefined ? [] : [{ project, rules: own }];
    }),
  );
};

/**
 * Returns those of the given users who may approve without being named by a rule, by project: active Developers and
 * administrators.
 */
export const reviewersByProject = async (
  ctx: Pick<Context, 'db'>,
  asked: readonly { readonly projectId: number; readonly userIds: readonly number[] }[],
): Promise<ReadonlyMap<number, ReadonlySet<number>>> => {
  const userIds = [...new Set(asked.flatMap((each) => each.userIds))];
  if (userIds.length === 0) return new Map();
  const [developers, users] = await Promise.all([
    usersByProjectLevel(ctx, asked, DEVELOPER),
    ctx.db
      .selectFrom('users')
      .select(['id', 'is_admin'])
      .where(sql<boolean>`id = any (${userIds}::bigint[])`)
      .where('state', '=', 'active')
      .execute(),
  ]);
  return new Map(
    asked.map(({ projectId }) => {
      const found = users.filter(({ id, is_admin }) => is_admin || developers.get(projectId)?.has(id));
      return [projectId, new Set(found.map(({ id }) => id))];
    }),
  );
};

/** The facts by which the settings keep users from approving a merge request. */
export interface Contributors {
  readonly author_id: number | null;
  /** The users who committed to the source branch (`committersByMergeRequests`). */
  readonly committer_ids: readonly number[];
}

/** Returns whether the settings keep this user from approving a merge request that they contributed to. */
export const isExcluded = (
  userId: number,
  { author_id, committer_ids }: Contributors,
  settings: Pick<ApprovalSettings, 'allow_author_approval' | 'allow_committer_approval'>,
): boolean =>
  (!settings.allow_author_approval && userId === author_id) ||
  (!settings.allow_committer_approval && committer_ids.includes(userId));

/**
 * Returns the users who committed to the newest version, by merge request. Merge requests without known committers are
 * absent.
 */
export const committersByMergeRequests = async (
  ctx: Pick<Context, 'db' | 'services'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly number[]>> => {
  const { rows } = await sql<{ id: number; email: string }>`
    select distinct d.merge_request_id as id, c.committer_email as email
    from merge_request_diffs d
    join merge_request_diff_commits c on c.diff_id = d.id and c.committer_email is not null
    where d.is_latest and d.merge_request_id = any (${ids}::bigint[])`.execute(ctx.db);
  const users = await userIdsByAddresses(
    ctx,
    rows.map(({ email }) => email),
    // Committers may be kept from approving, so an address counts before it is confirmed.
    { unconfirmedToo: true },
  );
  const found = new Map<number, number[]>();
  for (const { id, email } of rows) {
    const user = users.get(email.toLowerCase());
    if (user !== undefined) found.set(id, [...new Set([...(found.get(id) ?? []), user])]);
  }
  return found;
};
