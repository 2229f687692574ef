import { type RawBuilder, type Selectable, sql } from 'kysely';
import { hasCustomAttributes } from '#domains/custom-attributes/queries.ts';
import type { Actor, Context } from '#platform/context.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import { containing, wordsOf } from '#platform/db/like.ts';
import { type List, listOf, type SortKey, searchedListOf, type TermSearch } from '#platform/db/list.ts';
import type { Users } from '#platform/db/tables.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { badRequest, forbidden, notFound, unauthenticated } from '#platform/errors.ts';
import { nameVariants } from '#platform/ldap/names.ts';
import type { SortDirection } from '#platform/paging.ts';
import { INTERNAL_TYPES } from './model.ts';

/** The columns that a user object inside another record needs. */
export interface UserSummary {
  readonly id: number;
  readonly username: string;
  readonly name: string;
  readonly state: string;
  readonly locked_until: string | null;
  readonly avatar_key: string | null;
  readonly public_email: string;
}

export const userSummaryColumns = [
  'users.id',
  'users.username',
  'users.name',
  'users.state',
  'users.locked_until',
  'users.avatar_key',
  'users.public_email',
] as const;

/** All columns except the password digest and the failure count, which no reader needs. */
const userColumns = [
  ...userSummaryColumns,
  'users.email',
  'users.user_type',
  'users.is_admin',
  'users.is_auditor',
  'users.external',
  'users.private_profile',
  'users.bio',
  'users.location',
  'users.commit_email',
  'users.skype',
  'users.linkedin',
  'users.twitter',
  'users.discord',
  'users.website_url',
  'users.organization',
  'users.job_title',
  'users.pronouns',
  'users.timezone',
  'users.preferred_language',
  'users.first_day_of_week',
  'users.note',
  'users.theme_id',
  'users.color_scheme_id',
  'users.view_diffs_file_by_file',
  'users.projects_limit',
  'users.can_create_group',
  'users.two_factor_enabled',
  'users.password_change_required',
  'users.sign_in_count',
  'users.current_sign_in_at',
  'users.current_sign_in_ip',
  'users.last_sign_in_at',
  'users.last_sign_in_ip',
  'users.last_activity_on',
  'users.confirmed_at',
  'users.terms_accepted_at',
  'users.email_reset_offered_at',
  'users.shared_runners_minutes_limit',
  'users.extra_shared_runners_minutes_limit',
  'users.provisioned_by_group_id',
  'users.created_by_id',
  'users.created_at',
  'users.updated_at',
] as const;

type WithoutTable<C extends string> = C extends `users.${infer Name}` ? Name : never;
export type UserRow = Selectable<Pick<Users, WithoutTable<(typeof userColumns)[number]>>>;

/** Returns the user, or null. */
export const findUser = async (ctx: Pick<Context, 'db'>, id: number): Promise<UserRow | null> =>
  (await ctx.db.selectFrom('users').select(userColumns).where('users.id', '=', id).executeTakeFirst()) ?? null;

/** Returns the user. `userView` decides how much the caller may see. @throws `not_found` (User) */
export const getUser = async (ctx: Pick<Context, 'db'>, id: number): Promise<UserRow> => {
  const user = await findUser(ctx, id);
  if (!user) throw notFound('User');
  return user;
};

/** Returns the user with that name, compared case-insensitively, or null. */
export const findUserByUsername = async (ctx: Pick<Context, 'db'>, username: string): Promise<UserRow | null> =>
  (await ctx.db
    .selectFrom('users')
    .select(userColumns)
    .where(sql<boolean>`lower(users.username) = lower(${username})`)
    .executeTakeFirst()) ?? null;

/** Returns the caller's row. @throws `unauthenticated` for anonymous callers */
export const getCurrentUser = (ctx: Context): Promise<UserRow> => {
  if (ctx.actor.userId === null) throw unauthenticated();
  return getUser(ctx, ctx.actor.userId);
};

/**
 * Returns summaries of the users by id, for nested objects. Ids may repeat. Null, for nobody, and unknown ids are
 * absent from the result.
 */
export const userSummariesByIds = async (
  ctx: Pick<Context, 'db' | 'services' | 'actor'>,
  given: readonly (number | null)[],
): Promise<Map<number, UserSummary>> => {
  const ids = [...new Set(given.filter((id) => id !== null))];
  if (ids.length === 0) return new Map();
  const statement = statements.get(
    ctx,
    'summaries',
    () => sql`
      select ${sql.join(userSummaryColumns.map((column) => sql.ref(column)))}
      from users where id = any (${slot('ids')}::bigint[])`,
  );
  const rows = await runCompiled<UserSummary>(ctx, statement, { ids });
  return new Map(rows.map((row) => [row.id, row]));
};

const statements = new CompiledStatements();

/** Returns summaries of the users with these usernames, compared case-insensitively. */
export const userSummariesByUsernames = async (
  ctx: Pick<Context, 'db'>,
  usernames: readonly string[],
): Promise<UserSummary[]> => {
  if (usernames.length === 0) return [];
  return ctx.db
    .selectFrom('users')
    .select(userSummaryColumns)
    .where(sql<boolean>`lower(users.username) = any (${usernames.map((each) => each.toLowerCase())}::text[])`)
    .execute();
};

/** Returns the full rows of the users, by id. Unknown ids are absent. */
export const usersByIds = async (ctx: Pick<Context, 'db'>, ids: readonly number[]): Promise<Map<number, UserRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('users')
    .select(userColumns)
    .where(sql<boolean>`users.id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
};

export interface Identity {
  readonly provider: string;
  readonly extern_uid: string;
  readonly saml_provider_id: number | null;
}

/** The part of a user's record that comes from other tables. */
export interface UserDetails {
  readonly id: number;
  readonly namespace_id: number | null;
  readonly followers: number;
  readonly following: number;
  readonly is_followed: boolean;
  readonly personal_projects: number;
  readonly identities: readonly Identity[];
  readonly scim_identities: readonly {
    readonly extern_uid: string;
    readonly group_id: number;
    readonly active: boolean;
  }[];
}

/** Returns the details of the users, by id. */
export const userDetailsByIds = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<Map<number, UserDetails>> => {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<UserDetails>`
    select u.id, n.id as namespace_id,
      (select count(*) from user_follows f where f.followed_id = u.id) as followers,
      (select count(*) from user_follows f where f.follower_id = u.id) as following,
      exists (select 1 from user_follows f where f.followed_id = u.id and f.follower_id = ${ctx.actor.userId}::bigint) as is_followed,
      (select count(*) from projects p where p.namespace_id = n.id) as personal_projects,
      coalesce((select json_agg(json_build_object('provider', i.provider, 'extern_uid', i.extern_uid,
          'saml_provider_id', i.saml_provider_id) order by i.id)
        from identities i where i.user_id = u.id), '[]') as identities,
      coalesce((select json_agg(json_build_object('extern_uid', s.extern_uid, 'group_id', s.group_id,
          'active', s.active) order by s.id)
        from scim_identities s where s.user_id = u.id), '[]') as scim_identities
    from users u left join namespaces n on n.owner_id = u.id and n.kind = 'user'
    where u.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/**
 * How to find users by parts of a name or user name, or by a whole address. A name matches if it has each word of the
 * term, in any order. The address is the public one; for
 * administrators it may also be the primary one or any confirmed one. A public address is always one of those, so the
 * lookup uses their unique indexes. The trigram index of names needs three letters.
 */
const usersContaining = (actor: Actor, given: string): TermSearch => {
  const term = given.trim();
  const words = wordsOf(term);
  const has = (column: string) =>
    sql.join(
      words.map((word) => sql<boolean>`${sql.ref(column)} ilike ${containing(word)}`),
      sql` and `,
    );
  const named = (alias: string) => sql<boolean>`(${has(`${alias}.username`)} or ${has(`${alias}.name`)})`;
  const shown = actor.isAdmin ? sql`true` : sql`lower(users.public_email) = lower(${term})`;
  const orAddressed = (condition: RawBuilder<boolean>) =>
    isAddress(term)
      ? sql<boolean>`(${condition} or ${shown} and users.id = any (array(
          select u.id from users u where lower(u.email) = lower(${term})
          union select e.user_id from emails e where lower(e.email) = lower(${term}) and e.confirmed_at is not null)))`
      : condition;
  return {
    table: 'users',
    contains: orAddressed(named('users')),
    found: orAddressed(
      words.every((word) => word.length < 3)
        ? named('users')
        : sql<boolean>`users.id = any (array(select u.id from users u where ${named('u')}))`,
    ),
  };
};

const isAddress = (term: string): boolean => term.includes('@');

export const USER_ORDERS = ['id', 'name', 'username', 'created_at', 'updated_at'] as const;
type UserOrder = (typeof USER_ORDERS)[number];

export interface UserFilter {
  readonly username?: string | undefined;
  readonly usernames?: readonly string[] | undefined;
  readonly ids?: readonly number[] | undefined;
  /** Words of a name or user name, or a whole email address: the public one, or any one for administrators. */
  readonly search?: string | undefined;
  readonly active?: boolean | undefined;
  readonly blocked?: boolean | undefined;
  readonly external?: boolean | undefined;
  readonly humans?: boolean | undefined;
  /** Only service accounts of this group. Null selects those without a group. */
  readonly service_accounts_of?: number | null | undefined;
  readonly exclude_external?: boolean | undefined;
  readonly exclude_internal?: boolean | undefined;
  readonly without_project_bots?: boolean | undefined;
  readonly created_after?: string | undefined;
  readonly created_before?: string | undefined;
  readonly order_by?: UserOrder | undefined;
  readonly sort?: SortDirection | undefined;
  // Only administrators can use the filters below.
  readonly admins?: boolean | undefined;
  readonly auditors?: boolean | undefined;
  /** Only accounts that people registered and no administrator has approved yet. */
  readonly pending_approval?: boolean | undefined;
  readonly two_factor?: 'enabled' | 'disabled' | undefined;
  readonly without_projects?: boolean | undefined;
  readonly provider?: string | undefined;
  readonly extern_uid?: string | undefined;
  readonly saml_provider_id?: number | undefined;
  readonly skip_ldap?: boolean | undefined;
  readonly custom_attributes?: Readonly<Record<string, string>> | undefined;
}

/**
 * Lists users (specification 2 §4.1). Anonymous callers must filter by user name and cannot list everyone
 * (`forbidden`). Administrator filters are ignored for other callers, like unknown parameters.
 *
 * @throws DomainError `forbidden`, `bad_request` for one of `provider` and `extern_uid` without the other
 */
export const listUsers = (ctx: Pick<Context, 'db' | 'actor'>, filter: UserFilter): List<UserRow> => {
  const { actor } = ctx;
  if (actor.userId === null && !actor.isSystem && !filter.username && !filter.usernames?.length) {
    throw forbidden('Not authorized to list users');
  }
  if ((filter.provider === undefined) !== (filter.extern_uid === undefined)) {
    throw badRequest('provider and the external id can only be given together');
  }
  let query = ctx.db.selectFrom('users').select(userColumns);
  if (filter.username !== undefined)
    query = query.where(sql<boolean>`lower(users.username) = lower(${filter.username})`);
  if (filter.usernames !== undefined) {
    const wanted = filter.usernames.map((username) => username.toLowerCase());
    query = query.where(sql<boolean>`lower(users.username) = any (${wanted}::text[])`);
  }
  if (filter.ids !== undefined) query = query.where(sql<boolean>`users.id = any (${filter.ids}::bigint[])`);
  const search = filter.search ? usersContaining(actor, filter.search) : null;
  // Few users have the address, or a name with an "@".
  const isRare = filter.search !== undefined && isAddress(filter.search);
  if (search && isRare) query = query.where(search.found);
  // Literals, because of a parameter Postgres does not know whether nearly all users have it, or nearly none.
  if (filter.active) query = query.where('users.state', '=', sql.lit('active'));
  if (filter.blocked) query = query.where('users.state', 'in', [sql.lit('blocked'), sql.lit('ldap_blocked')]);
  if (filter.external) query = query.where('users.external', '=', sql.lit(true));
  if (filter.service_accounts_of !== undefined) {
    query = query
      .where('users.user_type', '=', sql.lit('service_account'))
      .where('users.provisioned_by_group_id', 'is not distinct from', filter.service_accounts_of);
  }
  if (filter.exclude_external) query = query.where('users.external', '=', sql.lit(false));
  if (filter.humans) query = query.where('users.user_type', '=', sql.lit('human'));
  if (filter.exclude_internal) query = query.where('users.user_type', 'not in', INTERNAL_TYPES.map(sql.lit));
  if (filter.without_project_bots) query = query.where('users.user_type', '<>', sql.lit('project_bot'));
  const created = sql.ref('users.created_at');
  if (filter.created_after) query = query.where(atOrAfter(created, filter.created_after));
  if (filter.created_before) query = query.where(atOrBefore(created, filter.created_before));
  if (actor.isAdmin) {
    if (filter.admins) query = query.where('users.is_admin', '=', sql.lit(true));
    if (filter.pending_approval) query = query.where('users.state', '=', sql.lit('blocked_pending_approval'));
    if (filter.auditors) query = query.where('users.is_auditor', '=', sql.lit(true));
    if (filter.two_factor)
      query = query.where('users.two_factor_enabled', '=', sql.lit(filter.two_factor === 'enabled'));
    if (filter.without_projects) {
      query =
        query.where(sql<boolean>`not exists (select 1 from members m where m.user_id = users.id and m.project_id is not null)
        and not exists (select 1 from projects p join namespaces n on n.id = p.namespace_id
          where n.owner_id = users.id and n.kind = 'user')`);
    }
    if (filter.provider !== undefined && filter.extern_uid !== undefined) {
      const named = filter.provider.startsWith('ldap')
        ? sql<boolean>`lower(i.extern_uid) = any (${nameVariants(filter.extern_uid)}::text[])`
        : sql<boolean>`i.extern_uid = ${filter.extern_uid}`;
      const identified = sql<boolean>`exists (select 1 from identities i where i.user_id = users.id
        and i.provider = ${filter.provider} and ${named})`;
      query = query.where(
        filter.provider === 'scim'
          ? sql<boolean>`(${identified} or exists (
              select 1 from scim_identities s where s.user_id = users.id and s.extern_uid = ${filter.extern_uid}))`
          : identified,
      );
    }
    if (filter.saml_provider_id !== undefined) {
      query = query.where(sql<boolean>`exists (select 1 from identities i
        where i.user_id = users.id and i.saml_provider_id = ${filter.saml_provider_id})`);
    }
    if (filter.skip_ldap) {
      query = query.where(sql<boolean>`not exists (select 1 from identities i
        where i.user_id = users.id and i.provider like 'ldap%')`);
    }
    if (filter.custom_attributes !== undefined) {
      const wanted = JSON.stringify(filter.custom_attributes);
      query = query.where(hasCustomAttributes('users', sql.ref('users.id'), wanted));
    }
  }
  const order = filter.order_by ?? 'id';
  const byId: SortKey<UserRow> = { by: sql.ref('users.id'), of: (row) => row.id };
  const keys = order === 'id' ? [byId] : [{ by: sql.ref(`users.${order}`), of: (row: UserRow) => row[order] }, byId];
  const direction = filter.sort ?? 'desc';
  return search && !isRare
    ? searchedListOf(ctx.db, query, keys, direction, search)
    : listOf(ctx.db, query, keys, direction);
};
