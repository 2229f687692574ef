import { sql } from 'kysely';
import { importedLevel } from '../importing/people.ts';
import { day, exported, isObject, moment, Refused, type Row, readRow } from './columns.ts';
import { readTable } from './reading.ts';
import type { Relation } from './relation.ts';

const columns = [day('expires_at'), moment('created_at'), moment('updated_at')];
const types = {
  user_id: 'bigint',
  project_id: 'bigint',
  access_level: 'smallint',
  expires_at: 'date',
  created_by_id: 'bigint',
  invite_email: 'text',
  created_at: 'timestamptz',
  updated_at: 'timestamptz',
};

/** The direct members of the project (reference: export-archive §5). */
export const projectMembers: Relation = {
  name: 'project_members',
  reading: readTable('members', [
    exported('access_level', 't.access_level'),
    exported('source_type', `'Project'`),
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
  ]),
  async write(batch, lines) {
    const { people, place } = batch;
    // Only an administrator's import grants roles, because anyone can edit an archive.
    if (!people.considersMembers) return;
    const rows: Row[] = [];
    for (const line of lines) {
      try {
        const { value } = line;
        if (value.requested_at !== null && value.requested_at !== undefined) continue;
        const access_level = importedLevel(value.access_level);
        if (access_level === null) throw new Refused('access_level is not included in the list');
        const row = { ...readRow(columns, value, people), access_level, project_id: place.project_id };
        const created_by_id = people.importer.id;
        if (isObject(value.user)) {
          const user_id = people.known(value.user.id);
          if (user_id !== null) rows.push({ ...row, user_id, invite_email: null, created_by_id });
        } else {
          const email = value.invite_email;
          if (typeof email !== 'string' || !/^[^\s@]+@[^\s@]+$/.test(email) || email.length > 255)
            throw new Refused('invite_email is invalid');
          rows.push({ ...row, user_id: null, invite_email: email, created_by_id });
        }
      } catch (error) {
        batch.fail(line, error);
      }
    }
    await batch.query(sql`select from projects where id = ${place.project_id} for key share`);
    await batch.insert('members', types, rows, { unlessThere: true });
  },
};
