import { type RawBuilder, sql } from 'kysely';
import { DEVELOPER, MAINTAINER } from '#domains/access/model.ts';
import { usersWithProjectLevel } from '#domains/access/queries.ts';
import { groupsInvitedTo } from '#domains/access/roles.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import type { Tx } from '#platform/context.ts';
import { invalid, unprocessable } from '#platform/errors.ts';
import { ADMINISTRATOR, NO_ONE, type ProtectionAction } from '../protections.ts';

// Access levels of protected branches and tags.

export interface GrantedLevel {
  readonly id: number;
  readonly action: ProtectionAction;
  readonly access_level: number | null;
  readonly user_id: number | null;
  readonly group_id: number | null;
  /** The name of the user or group. */
  readonly name: string | null;
}

/** A role, a user or a group to allow. On update, `id` selects an existing level to change or destroy. */
export interface Grant {
  readonly id?: number | undefined;
  readonly access_level?: number | undefined;
  readonly user_id?: number | undefined;
  readonly group_id?: number | undefined;
  readonly destroy?: boolean | undefined;
}

type Rule = { readonly protected_branch_id: number } | { readonly protected_tag_id: number };

const MAX_NAME = 255;
const ROLES: readonly number[] = [NO_ONE, DEVELOPER, MAINTAINER, ADMINISTRATOR];

const DESCRIPTIONS: Readonly<Record<number, string>> = {
  0: 'No one',
  30: 'Developers + Maintainers',
  40: 'Maintainers',
  60: 'Administrators',
};

/** Returns a description such as `Maintainers`, or the name of the user or group. */
export const describeLevel = ({ access_level, name }: GrantedLevel): string =>
  access_level === null ? (name ?? '') : (DESCRIPTIONS[access_level] ?? '');

/** Returns the role for frontends, which expect one even for users and groups. */
export const roleToTell = ({ access_level }: GrantedLevel): number => access_level ?? MAINTAINER;

/** Returns the scope of events about a protection. */
export const aboutProtection = (project: ProjectRow) => ({
  ...projectScope(project),
  subject: { type: 'Project', id: project.id },
  min_access_level: DEVELOPER,
});

/** SQL: the `GrantedLevel`s of a rule as JSON. `rule` is the column that refers to the rule. */
export const levelsOf = (
  rule: 'protected_branch_id' | 'protected_tag_id',
  id: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`
  coalesce((select jsonb_agg(jsonb_build_object('id', l.id, 'action', l.action, 'access_level', l.access_level,
      'user_id', l.user_id, 'group_id', l.group_id, 'name', coalesce(u.name, n.name)) order by l.id)
    from protection_levels l
    left join users u on u.id = l.user_id
    left join namespaces n on n.id = l.group_id
    where ${sql.ref(`l.${rule}`)} = ${id}), '[]')`;

/** Returns the levels of a new rule. Defaults to Maintainers. */
export const allowedFromStart = (role: number | undefined, grants: readonly Grant[] = []): readonly Grant[] => {
  const wanted = [...(role === undefined ? [] : [{ access_level: role }]), ...grants];
  return wanted.length > 0 ? wanted : [{ access_level: MAINTAINER }];
};

/** Returns the problem with the name, or null. `*` matches any characters. */
export const nameProblem = (name: string): string | null => {
  if (name === '') return "can't be blank";
  if (Buffer.byteLength(name) > MAX_NAME) return `is too long (maximum is ${MAX_NAME} bytes)`;
  return /[\p{Cc} ~^:?[\\]/u.test(name) ? 'is invalid' : null;
};

/** Returns the ids of the levels that grants with an `id` replace. @throws DomainError `invalid` for an unknown id */
export const idsToRemove = (present: readonly GrantedLevel[], grants: readonly Grant[]): number[] =>
  grants.flatMap(({ id }) => {
    if (id === undefined) return [];
    if (!present.some((level) => level.id === id)) throw invalid({ base: [`There is no access level ${id} here`] });
    return [id];
  });

export const removeLevels = async (tx: Tx, ids: readonly number[]): Promise<void> => {
  if (ids.length > 0) await tx.db.deleteFrom('protection_levels').where('id', 'in', ids).execute();
};

/**
 * Adds levels. Each role, user and group can occur once per action.
 *
 * @throws DomainError `invalid`, `unprocessable` for a duplicate, and for people and groups without access to the
 * project
 */
export const addLevels = async (
  tx: Tx,
  project: ProjectRow,
  rule: Rule,
  action: ProtectionAction,
  grants: readonly Grant[],
): Promise<void> => {
  if (grants.length === 0) return;
  for (const grant of grants) checkGrant(grant);
  await checkPeople(tx, project, grants);
  await checkTwice(tx, rule, action, grants);
  await tx.db
    .insertInto('protection_levels')
    .values(
      grants.map(({ access_level = null, user_id = null, group_id = null }) => ({
        ...rule,
        action,
        access_level,
        user_id,
        group_id,
      })),
    )
    .execute();
};

const checkGrant = ({ access_level, user_id, group_id }: Grant): void => {
  if ([access_level, user_id, group_id].filter((each) => each !== undefined).length !== 1) {
    throw invalid({ base: ['Each access level needs one of access_level, user_id, group_id'] });
  }
  if (access_level !== undefined && !ROLES.includes(access_level)) {
    throw invalid({ access_level: ['is not included in the list'] });
  }
};

const KINDS = ['access_level', 'user_id', 'group_id'] as const;

/**
 * Refuses duplicates. The caller holds a lock on the project's row, so no concurrent request adds the same level.
 */
const checkTwice = async (tx: Tx, rule: Rule, action: ProtectionAction, grants: readonly Grant[]): Promise<void> => {
  const present = await tx.db
    .selectFrom('protection_levels')
    .select(KINDS)
    .where((eb) => eb.and({ ...rule, action }))
    .execute();
  const all = [...present, ...grants];
  for (const kind of KINDS) {
    const given = all.flatMap((each) => each[kind] ?? []);
    if (new Set(given).size === given.length) continue;
    const what = kind === 'access_level' ? 'access level' : kind.slice(0, -'_id'.length);
    throw unprocessable(`${action[0]?.toUpperCase()}${action.slice(1)} access levels ${what} has already been taken`);
  }
};

/** Refuses unknown and unrelated ids in the same way, so that the answer does not reveal which ids exist. */
const checkPeople = async (tx: Tx, project: ProjectRow, grants: readonly Grant[]): Promise<void> => {
  const userIds = [...new Set(grants.flatMap(({ user_id }) => user_id ?? []))];
  const developers = await usersWithProjectLevel(tx, project.id, userIds, DEVELOPER);
  if (userIds.some((id) => !developers.has(id))) {
    throw unprocessable('422 Unprocessable Entity', { user: ['is not a Developer or more in the project'] });
  }
  const groupIds = [...new Set(grants.flatMap(({ group_id }) => group_id ?? []))];
  if (groupIds.length === 0) return;
  const { traversal_ids } = project.namespace;
  const { rows } = await sql<{ id: number }>`
    select n.id from namespaces n where n.kind = 'group' and n.id = any (${groupIds}::bigint[]) and (
      n.id = any (${traversal_ids}::bigint[])
      or n.id in (${groupsInvitedTo('project', [project.id])})
      or n.id in (${groupsInvitedTo('namespace', traversal_ids)}))`.execute(tx.db);
  if (rows.length < groupIds.length) {
    throw unprocessable('422 Unprocessable Entity', { group: ['has no access to the project'] });
  }
};
