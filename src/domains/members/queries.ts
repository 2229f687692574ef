import { type RawBuilder, sql } from 'kysely';
import { GUEST, MAINTAINER, MINIMAL, OWNER } from '#domains/access/model.ts';
import { namespaceIsVisible, namespaceLevel, projectIsVisible, projectLevel } from '#domains/access/policy.ts';
import { isUnexpired } from '#domains/access/roles.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedCounts, batchedRows, groupedByParent, PARENT } from '#platform/db/batched-list.ts';
import { containing } from '#platform/db/like.ts';
import type { List, Window } from '#platform/db/list.ts';
import { DomainError, notFound } from '#platform/errors.ts';
import type { MemberSource } from './model.ts';
import { requireReadMembers } from './policy.ts';

/** A membership as it applies to a place: direct, inherited, or through an invited group. */
export interface MemberRow {
  /** The id of the membership. Null for the owner of a personal namespace, who is a member without a row. */
  readonly id: number | null;
  readonly user_id: number;
  /** The level that applies here. */
  readonly access_level: number;
  readonly expires_at: string | null;
  readonly created_by_id: number | null;
  readonly created_at: string;
  readonly updated_at: string;
  /** The place of the membership: exactly one of the two is set. */
  readonly namespace_id: number | null;
  readonly project_id: number | null;
}

/** How a user became a member. */
export type MemberRelation = 'direct' | 'inherited' | 'shared' | 'descendants';

/** Everyone with access: the relations that `/members/all` lists. */
export const ALL: readonly MemberRelation[] = ['direct', 'inherited', 'shared'];
const DIRECT: readonly MemberRelation[] = ['direct'];

export interface MemberFilter {
  /** Defaults to `direct`. A user found in several ways is listed once, with the highest level. */
  readonly relations?: readonly MemberRelation[] | undefined;
  /** Part of a name or username. */
  readonly query?: string | undefined;
  readonly userIds?: readonly number[] | undefined;
  readonly skipUserIds?: readonly number[] | undefined;
  readonly accessLevels?: readonly number[] | undefined;
}

/**
 * Lists the members of a group or project by user id, without expired memberships.
 *
 * @throws DomainError as `requireReadMembers`
 */
export const listMembers = (ctx: Context, source: MemberSource, filter: MemberFilter = {}): List<MemberRow> => {
  requireReadMembers(ctx, source);
  const id = source.kind === 'group' ? source.group.id : source.project.id;
  const place = sourceSql(ctx, source.kind, sql<number>`${id}::bigint`);
  return rowList(ctx, memberStatement(ctx, place, filter), (row) => row.user_id);
};

/** Lists the members of many groups or projects at once. */
export const listMembersBelow = (
  ctx: Context,
  kind: MemberSource['kind'],
  filter: MemberFilter,
): BatchedList<MemberRow> => {
  const statement = memberStatement(ctx, sourceSql(ctx, kind, PARENT), filter);
  return batchedMembers(ctx, statement, (row) => row.user_id);
};

/** Returns one member. @throws DomainError `not_found`, and as `requireReadMembers` */
export const getMember = async (
  ctx: Context,
  source: MemberSource,
  userId: number,
  relations: readonly MemberRelation[] = DIRECT,
): Promise<MemberRow> => {
  const [member] = await listMembers(ctx, source, { userIds: [userId], relations }).rows({ limit: 1 });
  if (!member) throw notFound();
  return member;
};

/** Lists the memberships of many users, by user id, in the groups (or projects) that the caller can see. */
export const listMembershipsOf = (ctx: Context, kind: MemberSource['kind']): BatchedList<MemberRow> => {
  const visible =
    kind === 'group'
      ? sql`exists (select 1 from namespaces n where n.id = m.namespace_id and ${namespaceIsVisible(ctx.actor, 'n')})`
      : sql`exists (select 1 from projects p where p.id = m.project_id and ${projectIsVisible(ctx.actor, 'p')})`;
  const statement: Statement = {
    from: sql`(select ${COLUMNS} from members m where m.user_id = ${PARENT} and ${LIVE} and ${visible}) found`,
    key: sql`found.id`,
    conditions: [sql`true`],
  };
  return batchedMembers(ctx, statement, (row) => row.id);
};

const batchedMembers = (
  { db }: Pick<Context, 'db'>,
  statement: Statement,
  keyOf: (row: MemberRow) => number | null,
): BatchedList<MemberRow> => ({
  rows: async (ids, window) => {
    const { rows } = await batchedRows<MemberRow>(ids, pageOf(statement, window)).execute(db);
    return groupedByParent(rows);
  },
  counts: async (ids, atMost) => {
    const { rows } = await batchedCounts(ids, countedOf(statement, atMost)).execute(db);
    return new Map(rows.map((row) => [row.batch_parent_id, row.count]));
  },
  cursorOf: (row) => [keyOf(row)],
});

/** The columns of a MemberRow, from `members m`. */
const COLUMNS = sql`m.id, m.user_id, m.access_level, m.expires_at, m.created_by_id, m.created_at, m.updated_at,
  m.namespace_id, m.project_id`;

const LIVE = isUnexpired('m');

/** A group or project, as SQL conditions on its id. */
interface SourceSql {
  /** Memberships `m` of the place itself. */
  readonly isHere: RawBuilder<unknown>;
  /** Namespaces whose members are inherited here. */
  readonly ancestors: RawBuilder<unknown>;
  /** Namespaces whose invited groups apply here. */
  readonly namespaces: RawBuilder<unknown>;
  /** Whether the caller manages the members. */
  readonly isManaged: RawBuilder<unknown>;
  readonly groupId: RawBuilder<unknown> | null;
  readonly projectId: RawBuilder<unknown> | null;
}

const sourceSql = ({ actor }: Context, kind: MemberSource['kind'], id: RawBuilder<number>): SourceSql => {
  if (kind === 'group') {
    const namespaces = sql`(select unnest(t.traversal_ids) from namespaces t where t.id = ${id})`;
    return {
      isHere: sql`m.namespace_id = ${id}`,
      ancestors: sql`${namespaces} and m.namespace_id <> ${id}`,
      namespaces,
      isManaged: sql`${namespaceLevel(actor, id)} >= ${sql.lit(OWNER)}`,
      groupId: id,
      projectId: null,
    };
  }
  const namespaces = sql`(select unnest(t.traversal_ids) from projects tp join namespaces t on t.id = tp.namespace_id
    where tp.id = ${id})`;
  return {
    isHere: sql`m.project_id = ${id}`,
    ancestors: namespaces,
    namespaces,
    isManaged: sql`(select ${projectLevel(actor, 'mp')} from projects mp where mp.id = ${id}) >= ${sql.lit(MAINTAINER)}`,
    groupId: null,
    projectId: id,
  };
};

interface Statement {
  readonly from: RawBuilder<unknown>;
  /** The unique column to sort by. */
  readonly key: RawBuilder<unknown>;
  readonly conditions: readonly RawBuilder<unknown>[];
}

const memberStatement = (ctx: Context, place: SourceSql, filter: MemberFilter): Statement => {
  const conditions: RawBuilder<unknown>[] = [sql`true`];
  if (filter.query) {
    const pattern = containing(filter.query);
    conditions.push(sql`(users.name ilike ${pattern} or users.username ilike ${pattern})`);
  }
  if (filter.userIds) conditions.push(sql`users.id = any (${filter.userIds}::bigint[])`);
  if (filter.skipUserIds) conditions.push(sql`users.id <> all (${filter.skipUserIds}::bigint[])`);
  if (filter.accessLevels) conditions.push(sql`found.access_level = any (${filter.accessLevels}::int[])`);
  const found = membersOf(ctx, place, filter.relations ?? DIRECT);
  return {
    from: sql`${found} join users on users.id = found.user_id`,
    key: sql`found.user_id`,
    conditions,
  };
};

/**
 * Returns everyone found by one of the relations, once each: by the highest level, then by the nearest relation. Of
 * equal memberships it is the newest, so that every page shows the same one.
 */
const membersOf = (ctx: Context, place: SourceSql, relations: readonly MemberRelation[]): RawBuilder<unknown> => {
  const wanted = new Set(relations);
  const parts: RawBuilder<unknown>[] = [];
  if (wanted.has('direct')) {
    parts.push(sql`select ${COLUMNS}, 0 as distance from members m where ${place.isHere} and ${LIVE}`);
    if (place.projectId) parts.push(personalOwner(place.projectId));
  }
  if (wanted.has('inherited')) {
    parts.push(sql`select ${COLUMNS}, 1 as distance from members m
      where m.namespace_id in ${place.ancestors} and m.access_level >= ${sql.lit(GUEST)} and ${LIVE}`);
  }
  if (wanted.has('shared')) parts.push(invited(ctx, place));
  if (wanted.has('descendants') && place.groupId) {
    parts.push(sql`select ${COLUMNS}, 2 as distance from members m
      join namespaces d on d.id = m.namespace_id and d.traversal_ids @> array[${place.groupId}]
        and d.id <> ${place.groupId} and ${namespaceIsVisible(ctx.actor, 'd')}
      where m.access_level >= ${sql.lit(GUEST)} and ${LIVE}`);
  }
  if (parts.length === 0) parts.push(sql`select ${COLUMNS}, 0 as distance from members m where false`);
  return sql`(select distinct on (user_id) * from (${sql.join(parts, sql` union all `)}) each
    where user_id is not null
    order by user_id, access_level desc, distance, expires_at desc nulls first, id desc) found`;
};

/** The owner of a personal namespace is the Owner of its projects, without a membership. */
const personalOwner = (projectId: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  select null::bigint, n.owner_id, ${sql.lit(OWNER)}::smallint, null::date, null::bigint, n.created_at, n.updated_at,
    n.id, null::bigint, 0
  from projects p join namespaces n on n.id = p.namespace_id where p.id = ${projectId} and n.kind = 'user'`;

/**
 * Members of invited groups, up to the level of the invitation. Members of groups that the caller cannot see are
 * visible only to those who manage the members.
 */
const invited = (ctx: Context, place: SourceSql): RawBuilder<unknown> => {
  const toProject = place.projectId
    ? sql`union all select ps.shared_with_id, ps.access_level, ps.expires_at from project_shares ps
        where ps.project_id = ${place.projectId}`
    : sql``;
  return sql`select m.id, m.user_id, least(m.access_level, s.access_level) as access_level,
      least(m.expires_at, s.expires_at) as expires_at,
      m.created_by_id, m.created_at, m.updated_at, m.namespace_id, m.project_id, 3 as distance
    from (select ns.shared_with_id, ns.access_level, ns.expires_at from namespace_shares ns
        where ns.namespace_id in ${place.namespaces} ${toProject}) s
    join namespaces g on g.id = s.shared_with_id
    join members m on m.namespace_id = any (g.traversal_ids) and m.access_level > ${sql.lit(MINIMAL)} and ${LIVE}
    where ${isUnexpired('s')}
      and (${namespaceIsVisible(ctx.actor, 'g')} or ${place.isManaged})`;
};

const SELECTED = sql`found.id, found.user_id, found.access_level, found.expires_at, found.created_by_id,
  found.created_at, found.updated_at, found.namespace_id, found.project_id`;

const pageOf = ({ from, key, conditions }: Statement, window: Window): RawBuilder<MemberRow> => {
  const { limit, offset = 0, after, before, backwards = false } = window;
  const all = [...conditions];
  if (after) all.push(sql`${key} > ${idOfCursor(after)}::bigint`);
  if (before) all.push(sql`${key} < ${idOfCursor(before)}::bigint`);
  return sql<MemberRow>`select ${SELECTED} from ${from} where ${sql.join(all, sql` and `)}
    order by ${key} ${sql.raw(backwards ? 'desc' : 'asc')} limit ${limit} offset ${offset}`;
};

const countedOf = ({ from, conditions }: Statement, atMost: number): RawBuilder<unknown> =>
  sql`select 1 from ${from} where ${sql.join(conditions, sql` and `)} limit ${atMost + 1}`;

const rowList = (ctx: Context, statement: Statement, keyOf: (row: MemberRow) => number | null): List<MemberRow> => ({
  rows: async (window) => (await pageOf(statement, window).execute(ctx.db)).rows,
  count: async (atMost) => {
    const counted = sql<{ count: number }>`select count(*) as count from (${countedOf(statement, atMost)}) counted`;
    return (await counted.execute(ctx.db)).rows[0]?.count ?? 0;
  },
  cursorOf: (row) => [keyOf(row)],
});

/** Validates the cursor, which is untrusted input. */
const idOfCursor = ([id]: readonly unknown[]): number => {
  if (typeof id === 'number' && Number.isSafeInteger(id)) return id;
  throw new DomainError('bad_request', 'The cursor is invalid for this list');
};
