import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { conflict, requireValid } from '#platform/errors.ts';
import { randomToken } from '#platform/secrets.ts';
import { reportTaken } from './accounts/conflicts.ts';
import { emailProblems, externalByDefault } from './accounts/email-rules.ts';
import { createPersonalNamespace } from './accounts/personal-namespace.ts';
import { lockUser, userPayload, writeUser } from './accounts/write.ts';
import { holdAddress, isTaken } from './addresses.ts';
import { attributeErrors } from './attributes.ts';
import { userCreated } from './events.ts';
import { getUser, type UserRow } from './queries.ts';

export interface BotAttributes {
  readonly name?: string | undefined;
  readonly username?: string | undefined;
  readonly email?: string | undefined;
}

/** Returns an unguessable name: the prefix and 32 letters and digits. Used when the caller does not choose a name. */
export const madeUpName = (prefix: string): string => prefix + randomToken(32).toLowerCase().replace(/[-_]/g, '0');

/** Returns an address that receives no mail. */
const nowhere = (ctx: Context, username: string): string =>
  `${username}@noreply.${new URL(ctx.services.urls.base).hostname}`;

/**
 * Creates a service account. Nobody can sign in with it, it cannot create top-level groups or personal projects, and it
 * takes no seat. A given address counts as unconfirmed, because nobody reads its mail. The caller must have checked the
 * permission.
 *
 * @throws `invalid` by attribute, `conflict` when the email address or user name is taken
 */
export const createServiceAccount = async (
  ctx: Context,
  account: Required<Pick<BotAttributes, 'name' | 'username'>> & Pick<BotAttributes, 'email'>,
  groupId: number | null,
): Promise<UserRow> => {
  const { name, username } = account;
  const settings = await getSettings(ctx);
  const email = account.email ?? nowhere(ctx, username);
  await check(ctx, { name, username, email }, account.email);
  return reportTaken(() =>
    ctx.transaction(async (tx) => {
      // An address that is derived from the user name is taken exactly when the user name is.
      await takeAddress(tx, email, null, account.email === undefined ? 'Username' : 'Email');
      const { id } = await tx.db
        .insertInto('users')
        .values({
          name,
          username,
          email,
          user_type: 'service_account',
          // External users must not reach internal projects through a service account that they create.
          external: ctx.actor.isExternal || externalByDefault(settings, email),
          can_create_group: false,
          projects_limit: 0,
          provisioned_by_group_id: groupId,
          created_by_id: ctx.actor.userId,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      await createPersonalNamespace(tx, id, { username, name });
      const user = await getUser(tx, id);
      tx.emit(userCreated, { subject: { type: 'User', id }, user_ids: [id], payload: userPayload(user) });
      return user;
    }),
  );
};

/** Gives the service accounts of a group to another group, which manages them from now on. */
export const moveServiceAccounts = async (tx: Tx, fromGroupId: number, toGroupId: number): Promise<void> => {
  await tx.db
    .updateTable('users')
    .set({ provisioned_by_group_id: toGroupId })
    .where('provisioned_by_group_id', '=', fromGroupId)
    .where('user_type', '=', 'service_account')
    .execute();
};

/**
 * Changes a service account. Undefined attributes stay unchanged. @throws as `createServiceAccount`, and `not_found`
 */
export const updateServiceAccount = async (ctx: Context, id: number, changes: BotAttributes): Promise<UserRow> => {
  await check(ctx, changes, changes.email);
  return reportTaken(() =>
    ctx.transaction(async (tx) => {
      const before = await lockUser(tx, id);
      const { email } = changes;
      const isOther = email !== undefined && email.toLowerCase() !== before.email.toLowerCase();
      if (isOther) await takeAddress(tx, email, id);
      return writeUser(tx, before, { ...changes, ...(isOther ? { confirmed_at: null } : {}) });
    }),
  );
};

const check = async (ctx: Context, attributes: BotAttributes, chosen: string | undefined): Promise<void> => {
  const errors = attributeErrors(attributes);
  const refusals = chosen === undefined || errors.email ? [] : emailProblems(await getSettings(ctx), chosen);
  if (refusals.length > 0) errors.email = refusals;
  requireValid(errors);
};

const takeAddress = async (tx: Tx, email: string, userId: number | null, what = 'Email'): Promise<void> => {
  await holdAddress(tx, email);
  if (await isTaken(tx, email, userId)) throw conflict(`${what} has already been taken`);
};
