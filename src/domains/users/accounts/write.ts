import { sql, type Updateable } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { Users } from '#platform/db/tables.ts';
import { removeAvatar } from '../avatar.ts';
import { userUpdated } from '../events.ts';
import { avatarUrl } from '../model.ts';
import { getUser, type UserRow } from '../queries.ts';
import { renamePersonalNamespace } from './personal-namespace.ts';

type Change = { previous: string | number | boolean | null; current: string | number | boolean | null };

/** The changes of a user, by attribute. */
export type Changes = Readonly<Record<string, Change>>;

/** Locks the user until the transaction ends and returns them. @throws `not_found` (User) */
export const lockUser = async (tx: Tx, id: number): Promise<UserRow> => {
  await tx.db.selectFrom('users').select('id').where('id', '=', id).forUpdate().execute();
  return getUser(tx, id);
};

/**
 * Writes columns of a user that `lockUser` returned. Renames the personal namespace with the user, removes the file of
 * a replaced picture, and emits an event that names the changes, including those in `more`. Returns the new row.
 */
export const writeUser = async (
  tx: Tx,
  before: UserRow,
  columns: Updateable<Users>,
  more: Changes = {},
): Promise<UserRow> => {
  const { id } = before;
  await tx.db
    .updateTable('users')
    .set({ ...columns, updated_at: sql`now()` })
    .where('id', '=', id)
    .execute();
  const user = await getUser(tx, id);
  if (user.username !== before.username || user.name !== before.name) await renamePersonalNamespace(tx, user);
  if (user.avatar_key !== before.avatar_key) removeAvatar(tx, before.avatar_key);
  const changes = { ...changesBetween(tx, before, user), ...more };
  tx.emit(userUpdated, {
    subject: { type: 'User', id },
    user_ids: [id],
    payload: { ...userPayload(user), changes },
  });
  return user;
};

/** Returns the user as events describe them. */
export const userPayload = ({ id, username, name, state }: UserRow) => ({ id, username, name, state });

/**
 * The attributes that the event names. The user receives the event, so attributes for administrators only (`note`) are
 * left out.
 */
const CHANGES_TOLD = [
  'username',
  'name',
  'state',
  'email',
  'is_admin',
  'is_auditor',
  'external',
  'private_profile',
  'can_create_group',
  'projects_limit',
  'public_email',
  'commit_email',
  'bio',
  'location',
  'organization',
  'job_title',
  'pronouns',
  'website_url',
  'skype',
  'linkedin',
  'twitter',
  'discord',
  'timezone',
  'theme_id',
  'color_scheme_id',
  'view_diffs_file_by_file',
  'preferred_language',
  'first_day_of_week',
  'shared_runners_minutes_limit',
  'extra_shared_runners_minutes_limit',
] as const;

const changesBetween = (tx: Tx, before: UserRow, after: UserRow): Record<string, Change> => {
  const changes: Record<string, Change> = {};
  for (const name of CHANGES_TOLD) {
    if (before[name] !== after[name]) changes[name] = { previous: before[name], current: after[name] };
  }
  if (before.avatar_key !== after.avatar_key) {
    changes.avatar_url = { previous: avatarUrl(tx, before), current: avatarUrl(tx, after) };
  }
  return changes;
};
