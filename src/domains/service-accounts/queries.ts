import { requireGroupAbility } from '#domains/groups/policy.ts';
import { type GroupRow, getGroup } from '#domains/groups/queries.ts';
import { listBotTokens, type TokenFilter, type TokenRow } from '#domains/tokens/queries.ts';
import { findUser, listUsers, type UserRow } from '#domains/users/queries.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import type { SortDirection } from '#platform/paging.ts';

/** The owner of service accounts: a top-level group, or null for the instance. */
export type Holder = IdOrPath | null;

export const SERVICE_ACCOUNT_ORDERS = ['id', 'username'] as const;

export interface ServiceAccountFilter {
  readonly order_by?: (typeof SERVICE_ACCOUNT_ORDERS)[number] | undefined;
  readonly sort?: SortDirection | undefined;
}

/**
 * Requires that the caller can manage the service accounts of the holder, and returns the top-level group, or null for
 * the instance. Owners and administrators can for a group, administrators for the instance.
 *
 * @throws `not_found` (Group), `forbidden`, `bad_request` for a subgroup
 */
export const administeredHolder = async (ctx: Context, holder: Holder): Promise<GroupRow | null> => {
  if (holder === null) {
    requireAdministrator(ctx);
    return null;
  }
  const group = await getGroup(ctx, holder);
  requireGroupAbility(ctx, group, 'admin_service_account');
  if (group.parent_id !== null) throw badRequest('service accounts belong to top-level groups');
  return group;
};

/** Lists the service accounts (specification 3 §4.3), newest first. @throws as `administeredHolder` */
export const listServiceAccounts = async (
  ctx: Context,
  holder: Holder,
  filter: ServiceAccountFilter = {},
): Promise<List<UserRow>> => {
  const group = await administeredHolder(ctx, holder);
  return listUsers(ctx, { ...filter, service_accounts_of: group?.id ?? null });
};

/** Returns one service account. @throws as `administeredHolder`, `not_found` (User) for any other user */
const getServiceAccount = async (ctx: Context, holder: Holder, id: number): Promise<UserRow> =>
  accountOf(ctx, await administeredHolder(ctx, holder), id);

/** Returns one service account of the group or instance, for callers who administer it. @throws `not_found` (User) */
export const accountOf = async (ctx: Context, group: GroupRow | null, id: number): Promise<UserRow> => {
  const user = await findUser(ctx, id);
  const isTheirs = user?.user_type === 'service_account' && user.provisioned_by_group_id === (group?.id ?? null);
  if (!isTheirs) throw notFound('User');
  return user;
};

/** Lists the tokens of a service account. @throws as `getServiceAccount` */
export const listServiceAccountTokens = async (
  ctx: Context,
  holder: Holder,
  id: number,
  filter: Omit<TokenFilter, 'user_id' | 'impersonation'> = {},
): Promise<List<TokenRow>> => listBotTokens(ctx, (await getServiceAccount(ctx, holder, id)).id, filter);
