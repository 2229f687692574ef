import { type RawBuilder, sql } from 'kysely';
import { GUEST, OWNER } from './model.ts';

// The rule of who holds which role on a namespace or project, written once (decision 2). A user holds the highest role
// of all grants that are valid today. Everything that asks for roles is built from the grants below; only the code that
// changes or lists memberships and shares names their tables (test/architecture.test.ts).

/** Grants of one kind, as SQL: the rows of `from`, and expressions over a row. */
export interface Grants {
  readonly from: RawBuilder<unknown>;
  readonly user: RawBuilder<number>;
  /** The namespace or project on which the user holds the role. */
  readonly place: RawBuilder<number>;
  readonly level: RawBuilder<number>;
  readonly isValid: RawBuilder<boolean>;
}

/** Limits grants to users, places and roles. Each value is SQL or a parameter. */
interface GrantFilter {
  readonly user?: RawBuilder<unknown> | number | null;
  /** An array of users. */
  readonly users?: RawBuilder<unknown>;
  readonly place?: RawBuilder<unknown> | number | null;
  /** An array of places. */
  readonly places?: RawBuilder<unknown>;
  /** The lowest role that counts. Defaults to Guest: Minimal access grants nothing. */
  readonly least?: RawBuilder<number> | number;
}

/**
 * SQL: whether the membership or share `alias` is valid today. It is valid up to, but not including, the day it
 * expires. Sessions run in UTC.
 */
export const isUnexpired = (alias: string): RawBuilder<boolean> => {
  const expiresAt = sql.ref(`${alias}.expires_at`);
  return sql<boolean>`(${expiresAt} is null or ${expiresAt} > current_date)`;
};

const isInEffect = sql<boolean>`a.expires_at > current_date`;

/** All roles on namespaces: inherited ones and those through shares included. */
export const NAMESPACE_ROLES: Grants = {
  from: sql`namespace_access a`,
  user: sql`a.user_id`,
  place: sql`a.namespace_id`,
  level: sql`a.access_level`,
  isValid: isInEffect,
};

/** Roles on namespaces by membership, inherited ones included. Shares pass on only these: shares do not chain. */
export const MEMBER_ROLES: Grants = { ...NAMESPACE_ROLES, isValid: sql`not a.via_share and ${isInEffect}` };

/** Roles on namespaces through shares of them or of a namespace above them. */
export const INVITED_ROLES: Grants = { ...NAMESPACE_ROLES, isValid: sql`a.via_share and ${isInEffect}` };

/** Members `a` of the group that is invited by the share `s`, up to the role of the share. */
const invitation = {
  user: MEMBER_ROLES.user,
  level: sql<number>`least(s.access_level, a.access_level)`,
  isValid: sql<boolean>`${MEMBER_ROLES.isValid} and ${isUnexpired('s')}`,
};
const isInvited = sql<boolean>`a.namespace_id = s.shared_with_id`;

/** Memberships `m` of a place itself. */
const membershipOf = (place: RawBuilder<number>): Grants => ({
  from: sql`members m`,
  user: sql`m.user_id`,
  place,
  level: sql`m.access_level`,
  isValid: sql`${place} is not null and ${isUnexpired('m')}`,
});

/** Roles on a project that its own members have. */
const PROJECT_MEMBERS = membershipOf(sql`m.project_id`);

/** Roles on a project through the groups that are invited to it. */
const PROJECT_INVITATIONS: Grants = {
  ...invitation,
  from: sql`project_shares s join namespace_access a on ${isInvited}`,
  place: sql`s.project_id`,
};

/** Roles that the share `s` of an outer query grants on its project. */
export const ROLES_BY_SHARE: Grants = {
  ...invitation,
  from: MEMBER_ROLES.from,
  place: sql`s.project_id`,
  isValid: sql`${isInvited} and ${invitation.isValid}`,
};

/** All grants on projects. The roles that count on a project: those on its namespace, and those on the project itself. */
export const PROJECT_ROLES = {
  namespace: { ...NAMESPACE_ROLES, comparedWith: 'namespace_id' },
  membership: { ...PROJECT_MEMBERS, comparedWith: 'id' },
  invitation: { ...PROJECT_INVITATIONS, comparedWith: 'id' },
} as const satisfies Record<string, Grants & { readonly comparedWith: 'id' | 'namespace_id' }>;

/** Grants that were given on a namespace itself. `namespace_access` holds what follows from them for the tree below. */
export const NAMESPACE_GRANTS = {
  membership: membershipOf(sql`m.namespace_id`),
  invitation: {
    ...invitation,
    from: sql`namespace_shares s join namespace_access a on ${isInvited}`,
    place: sql`s.namespace_id`,
  },
  /** The owner of a personal namespace has no membership. */
  ownership: {
    from: sql`namespaces u`,
    user: sql`u.owner_id`,
    place: sql`u.id`,
    level: sql.lit(OWNER),
    isValid: sql`u.kind = 'user'`,
  },
} as const satisfies Record<string, Grants>;

/** Selects something of each grant that is valid today. */
export const granted = (
  { from, user, place, level, isValid }: Grants,
  selected: RawBuilder<unknown>,
  which: GrantFilter,
): RawBuilder<unknown> => {
  const conditions: RawBuilder<boolean>[] = [];
  if (which.user !== undefined) conditions.push(sql`${user} = ${which.user}`);
  if (which.users !== undefined) conditions.push(sql`${user} = any (${which.users})`);
  if (which.place !== undefined) conditions.push(sql`${place} = ${which.place}`);
  if (which.places !== undefined) conditions.push(sql`${place} = any (${which.places})`);
  conditions.push(sql`${level} >= ${which.least ?? sql.lit(GUEST)}`, isValid);
  return sql`select ${selected} from ${from} where ${sql.join(conditions, sql` and `)}`;
};

/** Selects user and role of each grant of some kinds. */
export const grantedRoles = (kinds: readonly Grants[], which: GrantFilter): RawBuilder<unknown> =>
  unionAll(
    kinds.map((grants) => granted(grants, sql`${grants.user} as user_id, ${grants.level} as access_level`, which)),
  );

/** Selects user and role of each grant on a project itself, without those on its namespace. */
export const grantedOnProject = (which: GrantFilter): RawBuilder<unknown> =>
  grantedRoles([PROJECT_ROLES.membership, PROJECT_ROLES.invitation], which);

interface Holders {
  readonly user?: RawBuilder<unknown>;
  readonly least: RawBuilder<number> | number;
  /** Whether roles through invited groups count. They do by default. */
  readonly throughShares?: boolean;
}

/** Selects the ids of the users who hold at least the role `least` on the project row `alias`. May repeat them. */
export const holdersOfProject = (alias: string, { throughShares = true, ...which }: Holders): RawBuilder<unknown> => {
  const { namespace, membership, invitation } = PROJECT_ROLES;
  const kinds = throughShares
    ? [namespace, membership, invitation]
    : [{ ...namespace, isValid: MEMBER_ROLES.isValid }, membership];
  return unionAll(
    kinds.map((grants) =>
      granted(grants, grants.user, { ...which, place: sql.ref(`${alias}.${grants.comparedWith}`) }),
    ),
  );
};

const unionAll = (selects: readonly RawBuilder<unknown>[]): RawBuilder<unknown> => sql.join(selects, sql` union all `);

/** The tables of shares, and the column of the place that is shared. */
const SHARES = {
  project: { table: sql.table('project_shares'), place: sql.ref('s.project_id') },
  namespace: { table: sql.table('namespace_shares'), place: sql.ref('s.namespace_id') },
} as const;

/** Selects the ids of the groups that are invited to one of these projects or namespaces, with at least `least`. */
export const groupsInvitedTo = (
  kind: keyof typeof SHARES,
  places: readonly number[],
  least: number = GUEST,
): RawBuilder<unknown> => {
  const { table, place } = SHARES[kind];
  return sql`select s.shared_with_id from ${table} s
    where ${place} = any (${places}::bigint[]) and s.access_level >= ${least} and ${isUnexpired('s')}`;
};

/** Selects the ids of the projects or namespaces that the group is invited to. */
export const placesSharedWith = (kind: keyof typeof SHARES, groupId: RawBuilder<unknown>): RawBuilder<unknown> => {
  const { table, place } = SHARES[kind];
  return sql`select ${place} from ${table} s where s.shared_with_id = ${groupId} and ${isUnexpired('s')}`;
};

/** Selects the ids of the top-level groups that the user is an Owner of. The id may be a column. */
export const groupsOwned = (userId: number | RawBuilder<number>): RawBuilder<number> => sql<number>`
  select n.id from members m join namespaces n on n.id = m.namespace_id and n.parent_id is null
  where m.user_id = ${userId} and m.access_level = ${sql.lit(OWNER)} and ${isUnexpired('m')}`;

/** Selects the memberships `o` of the Owners of these groups, an array, that are valid today. */
const owners = (groups: RawBuilder<unknown>): RawBuilder<{ id: number }> => sql<{ id: number }>`
  select o.id from members o join users holder on holder.id = o.user_id
  where o.namespace_id = any (${groups}) and o.access_level = ${sql.lit(OWNER)} and ${isUnexpired('o')}`;

/** Selects those of `owners` who can act. An Owner who is blocked is none to rely on. */
export const actingOwners = (groups: RawBuilder<unknown>): RawBuilder<{ id: number }> =>
  sql<{ id: number }>`${owners(groups)} and holder.state = 'active'`;

/** Selects the ids of the top-level groups that have none of `others` but the user. */
const groupsOwnedWithout = (others: typeof owners, userId: number | RawBuilder<number>): RawBuilder<number> =>
  sql<number>`${groupsOwned(userId)} and not exists (${others(sql`array[m.namespace_id]`)} and o.user_id <> ${userId})`;

/** Selects the ids of the top-level groups that have no acting Owner but the user. The id may be a column. */
export const groupsOwnedAlone = (userId: number | RawBuilder<number>): RawBuilder<number> =>
  groupsOwnedWithout(actingOwners, userId);

/** Selects those of `groupsOwnedAlone` that have no other Owner at all, not even one who is blocked. */
export const groupsOwnedByNobodyElse = (userId: number): RawBuilder<number> => groupsOwnedWithout(owners, userId);
