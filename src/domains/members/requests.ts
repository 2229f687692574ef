import { sql } from 'kysely';
import { DEVELOPER, MAINTAINER, OWNER } from '#domains/access/model.ts';
import { requireMoreThanAudit } from '#domains/groups/policy.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { badRequest, forbidden, notFound, unauthenticated } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { accessDenied, accessRequested, accessWithdrawn, type MemberPayload } from './events.ts';
import { checkLevel, findRow, isMember, isOfSource, joinSource, lockManaged, lockSource, placed } from './joining.ts';
import { notifyManagers } from './mails.ts';
import { levelOn, type MemberSource, scopeOf, sourcePayload } from './model.ts';
import { requireAdminMembers, requireLevel } from './policy.ts';
import { getMember, type MemberRow } from './queries.ts';

export interface AccessRequestRow {
  readonly id: number;
  readonly user_id: number;
  readonly requested_at: string;
}

/** Lists the access requests, oldest first. Requires the right to manage members. @throws DomainError `forbidden` */
export const listAccessRequests = (ctx: Context, source: MemberSource): List<AccessRequestRow> => {
  requireAdminMembers(ctx, source);
  return listOf(ctx.db, requests(ctx).where(isOfSource(source)), BY_ID, 'asc');
};

/** Lists the access requests of many groups or projects whose members the caller manages. */
export const accessRequestsBelow = (ctx: Context, kind: MemberSource['kind']): BatchedList<AccessRequestRow> =>
  batchedListOf(
    ctx.db,
    (placeId) => requests(ctx).where(kind === 'group' ? 'namespace_id' : 'project_id', '=', placeId),
    BY_ID,
    'asc',
  );

const requests = (ctx: Context) => ctx.db.selectFrom('access_requests').select(['id', 'user_id', 'requested_at']);

const BY_ID: readonly SortKey<AccessRequestRow>[] = [{ by: sql.ref('id'), of: (row) => row.id }];

/**
 * Requests membership of a group or project that the caller can see.
 *
 * @throws DomainError `unauthenticated`, `forbidden` if requests are disabled and for auditors who can only read the
 *   place, `bad_request` for members and repeated requests
 */
export const requestAccess = async (ctx: Context, source: MemberSource): Promise<AccessRequestRow> => {
  const { userId } = ctx.actor;
  if (userId === null) throw unauthenticated();
  const { request_access_enabled } = source.kind === 'group' ? source.group : source.project;
  if (!request_access_enabled) throw forbidden('Access requests are disabled');
  if (source.kind === 'project') requireAbility(ctx, source.project, 'request_access');
  else requireMoreThanAudit(ctx, source.group);
  return ctx.transaction(async (tx) => {
    await lockSource(tx, source);
    const isOne = (!ctx.actor.isAdmin && levelOn(source) > 0) || (await findRow(tx, source, userId));
    if (isOne) throw badRequest('You are already a member');
    const row = await tx.db
      .insertInto('access_requests')
      .values({ ...placed(source), user_id: userId })
      .onConflict((on) => on.doNothing())
      .returning(['id', 'user_id', 'requested_at'])
      .executeTakeFirst();
    if (!row) throw badRequest('You have already requested access');
    const event = await eventOf(tx, source, row);
    tx.emit(accessRequested, event);
    await notifyManagers(tx, source, `${event.payload.user.name} (@${event.payload.user.username}) requests access`);
    return row;
  });
};

/**
 * Approves a request. The user becomes a Developer unless another level is given.
 *
 * @throws DomainError `forbidden`, `not_found` if there is no such request, `parameters`, `invalid`
 */
export const approveRequest = async (
  ctx: Context,
  given: MemberSource,
  userId: number,
  access_level: number = DEVELOPER,
): Promise<MemberRow> => {
  requireAdminMembers(ctx, given);
  checkLevel(given, access_level);
  requireLevel(ctx, given, access_level);
  return ctx.transaction(async (tx) => {
    const source = await lockManaged(tx, given);
    requireLevel(tx, source, access_level);
    await takeRequest(tx, source, userId);
    await joinSource(tx, source, { user_id: userId, access_level, expires_at: null, created_by_id: ctx.actor.userId });
    return getMember(tx, source, userId);
  });
};

/** Denies a request. Users can withdraw their own. @throws DomainError `forbidden`, `not_found` */
export const denyRequest = async (ctx: Context, given: MemberSource, userId: number): Promise<void> => {
  const withdraws = ctx.actor.userId === userId;
  if (!withdraws) requireAdminMembers(ctx, given);
  await ctx.transaction(async (tx) => {
    const source = withdraws ? given : await lockManaged(tx, given);
    const row = await takeRequest(tx, source, userId);
    tx.emit(withdraws ? accessWithdrawn : accessDenied, await eventOf(tx, source, row));
  });
};

const takeRequest = async (tx: Tx, source: MemberSource, userId: number): Promise<AccessRequestRow> => {
  const row = await tx.db
    .deleteFrom('access_requests')
    .where(isMember(source, userId))
    .returning(['id', 'user_id', 'requested_at'])
    .executeTakeFirst();
  if (!row) throw notFound();
  return row;
};

const eventOf = async (tx: Tx, source: MemberSource, { id, user_id, requested_at }: AccessRequestRow) => {
  const user = (await userSummariesByIds(tx, [user_id])).get(user_id);
  if (!user) throw notFound('User');
  const { id: userId, name, username, email } = hookUser(tx, user);
  const payload: MemberPayload = {
    id,
    user: { id: userId, name, username, email },
    source: sourcePayload(source),
    access_level: DEVELOPER,
    expires_at: null,
    created_at: isoTime(requested_at),
    updated_at: isoTime(requested_at),
  };
  return {
    ...scopeOf(source),
    subject: { type: 'AccessRequest', id },
    // Only those who can approve the request may read it.
    min_access_level: source.kind === 'group' ? OWNER : MAINTAINER,
    user_ids: [user_id],
    payload,
  };
};
