import { getSettings } from '#domains/settings/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, invalid, requireValid } from '#platform/errors.ts';
import type { SentFile } from '#platform/files/picture.ts';
import { randomToken } from '#platform/secrets.ts';
import { requireAnotherAdministrator } from './accounts/administrators.ts';
import { reportTaken } from './accounts/conflicts.ts';
import { accountErrors, insertAccount, type NewAccount } from './accounts/creation.ts';
import { setIdentity } from './accounts/identities.ts';
import { requireConfirmedAddresses } from './accounts/own-addresses.ts';
import { endOtherSessionsOf } from './accounts/sessions.ts';
import { lockUser, writeUser } from './accounts/write.ts';
import { attributeErrors, columnsOf, passwordErrors, type UserAttributes } from './attributes.ts';
import { storeAvatar } from './avatar.ts';
import { makePrimary, sendConfirmation } from './mails/confirmation.ts';
import { sendPasswordReset } from './mails/password-reset.ts';
import { isInternal } from './model.ts';
import { hashPassword } from './password.ts';
import { type ApplicationProof, requireProofOfApplication } from './proof.ts';
import { getUser, type UserRow } from './queries.ts';
import { removeAccount, type UserRemoval } from './removal.ts';
import { setPassword } from './set-password.ts';

export interface NewUser extends NewAccount, ApplicationProof {
  /** Both set a random password and ignore `password`. `reset_password` also mails a link to choose a new one. */
  readonly reset_password?: boolean | undefined;
  readonly force_random_password?: boolean | undefined;
  /** Marks the address as confirmed. Otherwise it is mailed a confirmation link. */
  readonly skip_confirmation?: boolean | undefined;
  readonly avatar?: SentFile | null | undefined;
}

/**
 * Creates a user with a personal namespace (specification 2 §4.1). Administrators only. Missing attributes default to
 * the instance settings, or are empty. OAuth applications must send `current_password` when they set attributes that
 * decide who can sign in, unless the address is mailed a link to choose a password.
 *
 * @throws `invalid` by attribute, `conflict` when the email address or user name is taken
 */
export const createUser = async (ctx: Context, input: NewUser): Promise<UserRow> => {
  requireAdministrator(ctx);
  const { reset_password, force_random_password, skip_confirmation, avatar, current_password, ...attributes } = input;
  const settings = await getSettings(ctx);
  const random = Boolean(reset_password || force_random_password);
  const password = random ? randomToken() : attributes.password;
  const errors = {
    ...accountErrors(settings, random ? { ...attributes, password: undefined } : attributes),
    ...newPasswordErrors(password, random ? 0 : settings.minimum_password_length),
  };
  if (Object.keys(errors).length > 0 || password === undefined) throw invalid(errors);
  const { admin, extern_uid } = attributes;
  if (decidesWhoComesIn({ admin: admin || undefined, extern_uid, password: random ? undefined : password })) {
    await requireProofOfApplication(ctx, { current_password });
  }
  const passwordHash = await hashPassword(password);
  const avatarKey = avatar ? await storeAvatar(ctx, avatar) : null;
  const confirmed = skip_confirmation ?? false;
  return reportTaken(() =>
    ctx.transaction(async (tx) => {
      const user = await insertAccount(tx, attributes, { settings, passwordHash, avatarKey, confirmed });
      if (!confirmed) await sendConfirmation(tx, user.id, user.email);
      if (reset_password) await sendPasswordReset(tx, user);
      return user;
    }),
  );
};

/** Whether the attributes decide who can sign in, as which user, or who is an administrator. */
const decidesWhoComesIn = ({ email, password, admin, extern_uid }: UserAttributes): boolean =>
  [email, password, admin, extern_uid].some((attribute) => attribute !== undefined);

const newPasswordErrors = (password: string | undefined, leastLength: number): Record<string, readonly string[]> =>
  password === undefined
    ? { password: ["can't be blank: give password, reset_password or force_random_password"] }
    : { ...passwordErrors(password, leastLength) };

export interface UserChanges extends UserAttributes, ApplicationProof {
  /** Makes the address the primary one without a confirmation by mail. */
  readonly skip_reconfirmation?: boolean | undefined;
  /** Null removes the picture. */
  readonly avatar?: SentFile | null | undefined;
}

/**
 * Changes a user. Undefined attributes stay unchanged. Administrators only. `email` must be a secondary address of the
 * user and becomes the primary one. When an administrator sets another user's password, the sessions of that user end
 * and they must change it at the next sign-in. OAuth applications must send `current_password` to change who can sign
 * in.
 *
 * @throws `not_found`, `forbidden` for internal accounts, `invalid` by attribute, `conflict` when the user name is
 * taken
 */
export const updateUser = async (ctx: Context, id: number, input: UserChanges): Promise<UserRow> => {
  requireAdministrator(ctx);
  const { skip_reconfirmation, avatar, current_password, ...changes } = input;
  const settings = await getSettings(ctx);
  if (isInternal(await getUser(ctx, id))) throw forbidden('Internal accounts cannot be changed');
  if (decidesWhoComesIn(changes)) await requireProofOfApplication(ctx, { current_password });
  const errors = {
    ...attributeErrors(changes),
    ...(changes.password === undefined ? {} : passwordErrors(changes.password, settings.minimum_password_length)),
  };
  requireValid(errors);
  const digest = changes.password === undefined ? null : await hashPassword(changes.password);
  const avatar_key = avatar ? await storeAvatar(ctx, avatar) : avatar;
  return reportTaken(() =>
    ctx.transaction(async (tx) => {
      const before = await lockUser(tx, id);
      if (before.is_admin && changes.admin === false) await requireAnotherAdministrator(tx, id);
      if (changes.email !== undefined) {
        await makePrimary(tx, id, changes.email, { skipReconfirmation: skip_reconfirmation ?? false });
      }
      await requireConfirmedAddresses(tx, before, changes);
      const identity = await setIdentity(tx, id, changes);
      if (digest !== null) {
        await setPassword(tx, id, digest, { changeRequired: id !== ctx.actor.userId });
        await endOtherSessionsOf(tx, id);
      }
      const columns = columnsOf(changes, settings.user_defaults_to_private_profile);
      return writeUser(
        tx,
        before,
        avatar_key === undefined ? columns : { ...columns, avatar_key },
        digest === null ? identity : { ...identity, password: { previous: null, current: null } },
      );
    }),
  );
};

/**
 * Removes a user with the personal namespace, its projects and all tokens. The user's contributions elsewhere move to
 * the ghost user. With `hardDelete` they are deleted, and so are the groups that nobody else owns. Administrators only, and
 * not for their own account. OAuth applications must send `current_password`.
 *
 * @throws `not_found`, `forbidden`, `conflict` while the user is the only owner of a group that stays, `modified`
 */
export const deleteUser = async (
  ctx: Context,
  id: number,
  { hardDelete = false, unchangedSince, ...proof }: ApplicationProof & UserRemoval = {},
): Promise<void> => {
  requireAdministrator(ctx);
  await requireProofOfApplication(ctx, proof);
  if (id === ctx.actor.userId) throw forbidden('You cannot remove your own account');
  await ctx.transaction((tx) => removeAccount(tx, id, { hardDelete, unchangedSince }));
};
