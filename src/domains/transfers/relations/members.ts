import { sql } from 'kysely';
import { OWNER } from '#domains/access/model.ts';
import { usersWithGroupLevel } from '#domains/access/queries.ts';
import { isUnexpired } from '#domains/access/roles.ts';
import { isInvitable } from '#domains/members/invitations.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { isObject } from '#platform/values/json.ts';
import type { ImportBatch } from '../importing/batch.ts';
import { importedLevel } from '../importing/people.ts';
import { type Column, day, exported, moment, Refused, type Row, readRow, selectColumns } from './columns.ts';
import { byteaText } from './insert-rows.ts';
import type { ExportReader, Relation, RelationReading } from './relation.ts';

const columns = [day('expires_at'), moment('created_at'), moment('updated_at')];
const types = {
  user_id: 'bigint',
  project_id: 'bigint',
  access_level: 'smallint',
  expires_at: 'date',
  created_by_id: 'bigint',
  created_at: 'timestamptz',
  updated_at: 'timestamptz',
};
const invitationTypes = {
  email: 'text',
  project_id: 'bigint',
  access_level: 'smallint',
  expires_at: 'date',
  digest: 'bytea',
  created_by_id: 'bigint',
  created_at: 'timestamptz',
};

const exportedColumns: readonly Column[] = [
  exported('access_level', 't.access_level'),
  exported('source_type', 't.source_type'),
  exported('user_id', 't.user_id'),
  exported('created_by_id', 't.created_by_id'),
  exported('invite_email', 't.invite_email'),
  ...columns,
  // The private address is not exported. Users without a public address are not matched on import.
  exported(
    'user',
    `(select json_build_object('id', u.id, 'public_email', nullif(u.public_email, ''), 'username', u.username)
      from users u where u.id = t.user_id)`,
  ),
];

/**
 * The members of the project, its invitations, and everybody else who is known only by a line here: members of the
 * groups above, each with their highest role, and the owner of a personal namespace, who has no membership. The ids of
 * owners are even and negative, those of invitations odd and negative.
 */
const membersOf = (projectId: number, { groupIds }: ExportReader) => sql<{ id: number }>`
  select m.id from members m where m.project_id = ${projectId}
  union all
  select id from (
    select distinct on (m.user_id) m.id from members m
    where m.namespace_id = any (${groupIds}::bigint[]) and ${isUnexpired('m')}
      and not exists (select from members d where d.project_id = ${projectId} and d.user_id = m.user_id)
    order by m.user_id, m.access_level desc, m.id) inherited
  union all
  select 1 - 2 * id from invitations where project_id = ${projectId}
  union all
  select -2 * n.owner_id from projects p join namespaces n on n.id = p.namespace_id
  where p.id = ${projectId} and n.owner_id is not null
    and not exists (select from members d where d.project_id = p.id and d.user_id = n.owner_id)`;

const reading: RelationReading = {
  count: (projectId, reader) =>
    sql<{ count: number }>`select count(*) as count from (${membersOf(projectId, reader)}) t`,
  ids: (projectId, reader) => sql<{ id: number }>`select id from (${membersOf(projectId, reader)}) t order by id`,
  page: (ids) => sql<{ id: number; line: string }>`
    select t.id, row_to_json(line)::text as line
    from (
      select id, access_level, case when project_id is null then 'Namespace' else 'Project' end as source_type, user_id,
        created_by_id, null as invite_email, expires_at, created_at, updated_at
      from members where id = any (${ids}::bigint[])
      union all
      select 1 - 2 * id, access_level, 'Project', null, created_by_id, email, expires_at, created_at, created_at
      from invitations where id = any (array(select (1 - odd) / 2 from unnest(${ids}::bigint[]) as odd where odd % 2 = -1))
      union all
      select -2 * id, ${sql.lit(OWNER)}, 'Namespace', id, null, null, null, created_at, created_at
      from users where id = any (array(select -even / 2 from unnest(${ids}::bigint[]) as even
        where even < 0 and even % 2 = 0))) t,
      lateral (select ${sql.raw(selectColumns(exportedColumns))}) line
    order by t.id`,
  children: [],
  keys: exportedColumns.map(({ key }) => key),
};

/** The members of the project, also those by its groups (reference: export-archive §5). */
export const projectMembers: Relation = {
  name: 'project_members',
  reading,
  async write(batch, lines) {
    const { people, place } = batch;
    // Only an administrator's import grants roles, because anyone can edit an archive.
    if (!people.considersMembers) {
      batch.skip(lines.length);
      return;
    }
    const rows: Row[] = [];
    const invitations: Row[] = [];
    const inherited: { readonly user_id: number; readonly row: Row; readonly access_level: number }[] = [];
    for (const line of lines) {
      try {
        const { value } = line;
        if (value.requested_at !== null && value.requested_at !== undefined) {
          batch.skip();
          continue;
        }
        const access_level = importedLevel(value.access_level);
        if (access_level === null) throw new Refused('access_level is not included in the list');
        const row = { ...readRow(columns, value, people), access_level, project_id: place.project_id };
        const created_by_id = people.importer.id;
        if (isObject(value.user)) {
          const user_id = people.known(value.user.id);
          const found = { ...row, user_id, created_by_id };
          if (user_id === null) batch.skip();
          else if (value.source_type === 'Namespace') inherited.push({ user_id, row: found, access_level });
          else rows.push(found);
        } else {
          const email = value.invite_email;
          if (typeof email !== 'string' || !isInvitable(email)) throw new Refused('invite_email is invalid');
          invitations.push({ ...row, email, digest: unknownToken(), created_by_id });
        }
      } catch (error) {
        batch.fail(line, error);
      }
    }
    rows.push(...(await withoutRole(batch, inherited)));
    await batch.query(sql`select from projects where id = ${place.project_id} for key share`);
    await batch.insert('members', types, rows, { unlessThere: true });
    await batch.insert('invitations', invitationTypes, invitations, { unlessThere: true });
  },
};

/**
 * The digest of a token that nobody knows. No mail is sent, because an archive may name any address. The invitation is
 * accepted when a user signs in whose profile shows the address.
 */
const unknownToken = (): string => byteaText(digestToken(randomToken(32)));

/** Leaves out inherited members who hold the role already by a group that contains the project here. */
const withoutRole = async (
  { db, place: { namespace_ids } }: ImportBatch,
  inherited: readonly { readonly user_id: number; readonly row: Row; readonly access_level: number }[],
): Promise<Row[]> => {
  const namespaceId = namespace_ids.at(-1);
  if (namespaceId === undefined) return inherited.map(({ row }) => row);
  const kept: Row[] = [];
  for (const [level, members] of Map.groupBy(inherited, ({ access_level }) => access_level)) {
    const userIds = members.map(({ user_id }) => user_id);
    const holders = await usersWithGroupLevel({ db }, namespaceId, userIds, level);
    kept.push(...members.filter(({ user_id }) => !holders.has(user_id)).map(({ row }) => row));
  }
  return kept;
};
