import { sql } from 'kysely';
import type { Settings } from '#domains/settings/registry.ts';
import type { Tx } from '#platform/context.ts';
import { conflict } from '#platform/errors.ts';
import { holdAddress, isTaken } from '../addresses.ts';
import { attributeErrors, columnsOf, type UserAttributes } from '../attributes.ts';
import { userCreated } from '../events.ts';
import type { UserState } from '../model.ts';
import { getUser, type UserRow } from '../queries.ts';
import { emailProblems, externalByDefault } from './email-rules.ts';
import { setIdentity } from './identities.ts';
import { requireConfirmedAddresses } from './own-addresses.ts';
import { createPersonalNamespace } from './personal-namespace.ts';
import { userPayload } from './write.ts';

/** The attributes of an account to create. */
export interface NewAccount extends UserAttributes {
  readonly email: string;
  readonly name: string;
  readonly username: string;
}

/**
 * Returns the problems with a new account by attribute, apart from its password. The same rules hold for everyone who
 * creates accounts: administrators, external providers, and people who register.
 */
export const accountErrors = (settings: Settings, account: NewAccount): Record<string, string[]> => {
  const errors = attributeErrors(account);
  const refusals = errors.email ? [] : emailProblems(settings, account.email);
  if (refusals.length > 0) errors.email = refusals;
  return errors;
};

/** The facts about a new account besides its attributes. */
interface Creation {
  readonly settings: Settings;
  readonly passwordHash: string;
  /** Whether the address is known to belong to the user. */
  readonly confirmed: boolean;
  readonly avatarKey?: string | null;
  readonly state?: UserState;
}

/**
 * Inserts an account with its personal namespace and emits the event. Missing attributes default to the instance
 * settings, or are empty. The caller must have checked the permission and `accountErrors`.
 *
 * @throws `conflict` when the address is taken; a violated constraint when the name is (see `reportTaken`)
 */
export const insertAccount = async (
  tx: Tx,
  account: NewAccount,
  { settings, passwordHash, confirmed, avatarKey = null, state = 'active' }: Creation,
): Promise<UserRow> => {
  const { email, name, username } = account;
  await holdAddress(tx, email);
  if (await isTaken(tx, email, null)) throw conflict('Email has already been taken');
  const columns = columnsOf(account, settings.user_defaults_to_private_profile);
  const { id } = await tx.db
    .insertInto('users')
    .values({
      ...columns,
      email,
      name,
      username,
      state,
      password_hash: passwordHash,
      avatar_key: avatarKey,
      external: account.external ?? externalByDefault(settings, email),
      private_profile: columns.private_profile ?? settings.user_defaults_to_private_profile,
      can_create_group: account.can_create_group ?? settings.can_create_group,
      projects_limit: account.projects_limit ?? settings.default_projects_limit,
      preferred_language: account.preferred_language ?? settings.default_preferred_language,
      first_day_of_week: account.first_day_of_week ?? settings.first_day_of_week,
      confirmed_at: confirmed ? sql`now()` : null,
      created_by_id: tx.actor.userId,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await requireConfirmedAddresses(tx, { id, public_email: '', commit_email: null }, account);
  await setIdentity(tx, id, account);
  await createPersonalNamespace(tx, id, { username, name });
  const user = await getUser(tx, id);
  tx.emit(userCreated, { subject: { type: 'User', id }, user_ids: [id], payload: userPayload(user) });
  return user;
};
