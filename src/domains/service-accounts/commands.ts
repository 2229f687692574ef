import { OWNER } from '#domains/access/model.ts';
import { lockGroupFor } from '#domains/groups/locks.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import {
  type CreatedToken,
  createBotToken,
  type NewToken,
  revokeBotToken,
  rotateBotToken,
} from '#domains/tokens/commands.ts';
import type { TokenRow } from '#domains/tokens/queries.ts';
import { type BotAttributes, createServiceAccount, madeUpName, updateServiceAccount } from '#domains/users/bots.ts';
import type { UserRow } from '#domains/users/queries.ts';
import { removeAccount, type UserRemoval } from '#domains/users/removal.ts';
import type { Context, Tx } from '#platform/context.ts';
import { serviceAccountCreated, serviceAccountDeleted, serviceAccountUpdated } from './events.ts';
import { accountOf, administeredHolder, type Holder } from './queries.ts';

/** Runs a change in a transaction. The holder is locked, and the caller still administers it. */
const changing = async <T>(
  ctx: Context,
  holder: Holder,
  run: (tx: Tx, group: GroupRow | null) => Promise<T>,
): Promise<T> => {
  const seen = await administeredHolder(ctx, holder);
  return ctx.transaction(async (tx) => run(tx, seen && (await lockGroupFor(tx, seen, 'admin_service_account'))));
};

/**
 * Creates a service account of a top-level group, or of the instance (specification 3 §4.3). Generates the attributes
 * that are not given.
 *
 * @throws as `administeredHolder`, `invalid` by attribute, `conflict` when the email address or user name is taken
 */
export const addServiceAccount = (
  ctx: Context,
  holder: Holder,
  { name, username, email }: BotAttributes,
): Promise<UserRow> =>
  changing(ctx, holder, async (tx, group) => {
    const prefix = group ? `service_account_group_${group.id}_` : 'service_account_';
    const account = { name: name ?? 'Service account user', username: username ?? madeUpName(prefix), email };
    const user = await createServiceAccount(tx, account, group?.id ?? null);
    tx.emit(serviceAccountCreated, serviceAccountEvent(user, group));
    return user;
  });

/**
 * Changes a service account. Undefined attributes stay unchanged.
 *
 * @throws as `getServiceAccount`, `invalid`, `conflict`
 */
export const changeServiceAccount = (
  ctx: Context,
  holder: Holder,
  id: number,
  changes: BotAttributes,
): Promise<UserRow> =>
  changing(ctx, holder, async (tx, group) => {
    await accountOf(tx, group, id);
    const user = await updateServiceAccount(tx, id, changes);
    tx.emit(serviceAccountUpdated, serviceAccountEvent(user, group));
    return user;
  });

/**
 * Deletes a service account with its tokens. Its contributions move to the ghost user. With `hardDelete` they are
 * deleted, and so are the groups that nobody else owns.
 *
 * @throws as `getServiceAccount`, `conflict` while it is the only owner of a group that stays, `modified`
 */
export const removeServiceAccount = (
  ctx: Context,
  holder: Holder,
  id: number,
  { hardDelete = false, unchangedSince }: UserRemoval = {},
): Promise<void> =>
  changing(ctx, holder, async (tx, group) => {
    const user = await accountOf(tx, group, id);
    // The group is the caller's, even if the account owns it.
    await removeAccount(tx, id, { hardDelete, keptGroupId: group?.id, unchangedSince });
    tx.emit(serviceAccountDeleted, serviceAccountEvent(user, group));
  });

/** Creates a token for a service account. @throws as `getServiceAccount`, `invalid` by attribute */
export const createServiceAccountToken = (
  ctx: Context,
  holder: Holder,
  id: number,
  input: NewToken,
): Promise<CreatedToken> =>
  changing(ctx, holder, async (tx, group) => createBotToken(tx, (await accountOf(tx, group, id)).id, input));

/** Rotates a token of a service account. @throws as `getServiceAccount` and `rotateToken` */
export const rotateServiceAccountToken = (
  ctx: Context,
  holder: Holder,
  id: number,
  tokenId: number,
  wanted: { readonly expires_at?: string | null | undefined },
): Promise<CreatedToken> =>
  changing(ctx, holder, async (tx, group) => rotateBotToken(tx, (await accountOf(tx, group, id)).id, tokenId, wanted));

/** Revokes a token of a service account. Repeating it is not an error. @throws as `getServiceAccount`, `not_found` */
export const revokeServiceAccountToken = (
  ctx: Context,
  holder: Holder,
  id: number,
  tokenId: number,
): Promise<TokenRow> =>
  changing(ctx, holder, async (tx, group) => revokeBotToken(tx, (await accountOf(tx, group, id)).id, tokenId));

const serviceAccountEvent = ({ id, username, name }: UserRow, group: GroupRow | null) => ({
  subject: { type: 'User', id },
  namespace_ids: group ? group.traversal_ids : [],
  min_access_level: OWNER,
  payload: { id, username, name, group_id: group?.id ?? null },
});
