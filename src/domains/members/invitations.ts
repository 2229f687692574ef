import { type Selectable, sql } from 'kysely';
import { checkExpiry } from '#domains/access/expiry.ts';
import { MAINTAINER, OWNER, roleName } from '#domains/access/model.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { getProject } from '#domains/projects/queries.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import { type Context, inNameOf, systemActor, type Tx } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Invitations } from '#platform/db/tables.ts';
import { conflict, DomainError, invalid, notFound } from '#platform/errors.ts';
import { sendMail } from '#platform/mail/mail.ts';
import { MAIL_ADDRESS } from '#platform/mail/mail-address.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { webUrl } from '#platform/urls.ts';
import {
  type InvitationPayload,
  invitationAccepted,
  invitationCreated,
  invitationDeleted,
  invitationUpdated,
} from './events.ts';
import { checkLevel, isOfSource, joinSource, lockManaged, lockSource, placed } from './joining.ts';
import { wantsMails } from './mails.ts';
import { groupSource, type MemberSource, projectSource, scopeOf, sourcePayload } from './model.ts';
import { requireAdminMembers, requireLevel } from './policy.ts';

export type InvitationRow = Omit<Selectable<Invitations>, 'digest'>;

const COLUMNS = [
  'id',
  'namespace_id',
  'project_id',
  'email',
  'access_level',
  'expires_at',
  'created_by_id',
  'created_at',
] as const;

/** Invitations that one user may send per hour. Each is a mail to someone who may not want it. */
const PER_PERSON = { limit: 100, seconds: 3_600 };
const MAX_ADDRESS = 254;

/** Whether an address can be invited. */
export const isInvitable = (email: string): boolean => email.length <= MAX_ADDRESS && MAIL_ADDRESS.test(email);

export interface NewInvitation {
  readonly email: string;
  readonly access_level: number;
  /** The expiry of the membership. */
  readonly expires_at?: string | null | undefined;
}

/** Lists the open invitations. Requires the right to manage members. @throws DomainError `forbidden` */
export const listInvitations = (ctx: Context, source: MemberSource, search?: string): List<InvitationRow> => {
  requireAdminMembers(ctx, source);
  return listOf(ctx.db, invitations(ctx, search).where(isOfSource(source)), BY_ID, 'asc');
};

/** Lists the open invitations of many groups or projects whose members the caller manages. */
export const invitationsBelow = (
  ctx: Context,
  kind: MemberSource['kind'],
  search: string | undefined,
): BatchedList<InvitationRow> =>
  batchedListOf(
    ctx.db,
    (placeId) => invitations(ctx, search).where(kind === 'group' ? 'namespace_id' : 'project_id', '=', placeId),
    BY_ID,
    'asc',
  );

const invitations = (ctx: Context, search: string | undefined) => {
  const query = ctx.db.selectFrom('invitations').select(COLUMNS);
  return search ? query.where(sql<boolean>`email ilike ${containing(search)}`) : query;
};

const BY_ID: readonly SortKey<InvitationRow>[] = [{ by: sql.ref('id'), of: (row) => row.id }];

/**
 * Invites an address by a mail with a link. The response does not reveal whether a user has the address. The user
 * becomes a member through the link; the link is not needed if their profile shows the address publicly.
 *
 * @throws DomainError `forbidden`, `parameters`, `invalid`, `conflict` if the address is already invited,
 *   `too_many_requests`
 */
export const invite = async (
  ctx: Context,
  given: MemberSource,
  { email: address, access_level, expires_at = null }: NewInvitation,
): Promise<InvitationRow> => {
  requireAdminMembers(ctx, given);
  checkLevel(given, access_level);
  requireLevel(ctx, given, access_level);
  checkExpiry(ctx, expires_at);
  const email = address.trim();
  if (!isInvitable(email)) throw invalid({ email: ['is invalid'] });
  const { allowed, retryAfterSeconds } = await hit(ctx.services, `invitations:${ctx.actor.userId}`, PER_PERSON);
  if (!allowed) {
    throw new DomainError('too_many_requests', 'Too many invitations: try again later', { retryAfterSeconds });
  }
  const token = randomToken(32);
  return ctx.transaction(async (tx) => {
    const source = await lockManaged(tx, given);
    requireLevel(tx, source, access_level);
    const row = await tx.db
      .insertInto('invitations')
      .values({
        ...placed(source),
        email,
        access_level,
        expires_at,
        digest: digestToken(token),
        created_by_id: ctx.actor.userId,
      })
      .onConflict((on) => on.doNothing())
      .returning(COLUMNS)
      .executeTakeFirst();
    if (!row) throw conflict('This address is already invited');
    tx.emit(invitationCreated, eventOf(source, row));
    if (await wantsMails(tx, source)) mailInvitation(tx, source, row, token);
    return row;
  });
};

/**
 * Changes the level or expiry of an invitation. @throws DomainError `forbidden`, `not_found`, `parameters`, `invalid`
 */
export const updateInvitation = async (
  ctx: Context,
  given: MemberSource,
  email: string,
  changes: { readonly access_level?: number | undefined; readonly expires_at?: string | null | undefined },
): Promise<InvitationRow> => {
  requireAdminMembers(ctx, given);
  if (changes.access_level !== undefined) checkLevel(given, changes.access_level);
  checkExpiry(ctx, changes.expires_at);
  return ctx.transaction(async (tx) => {
    const source = await lockManaged(tx, given);
    const before = await find(tx, source, email).forUpdate().executeTakeFirst();
    if (!before) throw notFound();
    const { access_level = before.access_level, expires_at = before.expires_at } = changes;
    requireLevel(tx, source, before.access_level, access_level);
    const row = await tx.db
      .updateTable('invitations')
      .set({ access_level, expires_at })
      .where('id', '=', before.id)
      .returning(COLUMNS)
      .executeTakeFirstOrThrow();
    tx.emit(invitationUpdated, eventOf(source, row));
    return row;
  });
};

/** Revokes an invitation and its link. @throws DomainError `forbidden`, `not_found` */
export const deleteInvitation = async (ctx: Context, given: MemberSource, email: string): Promise<void> => {
  requireAdminMembers(ctx, given);
  await ctx.transaction(async (tx) => {
    const source = await lockManaged(tx, given);
    const row = await find(tx, source, email).forUpdate().executeTakeFirst();
    if (!row) throw notFound();
    requireLevel(tx, source, row.access_level);
    await tx.db.deleteFrom('invitations').where('id', '=', row.id).execute();
    tx.emit(invitationDeleted, eventOf(source, row));
  });
};

/**
 * Returns the invitation that a mailed token belongs to, or null if the token is invalid. Does not use up the token.
 */
export const invitationOf = async (
  ctx: Context,
  token: string,
): Promise<{ readonly invitation: InvitationRow; readonly name: string; readonly kind: string } | null> => {
  const invitation = await ctx.db
    .selectFrom('invitations')
    .select(COLUMNS)
    .where('digest', '=', digestToken(token))
    .executeTakeFirst();
  const source = invitation && (await sourceOf(ctx, invitation));
  if (!source) return null;
  return { invitation, name: sourcePayload(source).full_path, kind: source.kind };
};

/**
 * Accepts an invitation with its mailed token, which proves control of the address. @throws DomainError `not_found`,
 * `invalid`
 */
export const acceptInvitation = async (ctx: Context, token: string): Promise<void> => {
  const { userId } = ctx.actor;
  if (userId === null) throw notFound();
  await ctx.transaction(async (tx) => {
    const row = await tx.db
      .selectFrom('invitations')
      .select(COLUMNS)
      .where('digest', '=', digestToken(token))
      .forUpdate()
      .executeTakeFirst();
    if (!row) throw notFound();
    await accept(tx, row, userId);
  });
};

/**
 * Accepts the invitations of these users for the address that their profile shows. Accepting those for another address
 * would reveal its owner to the inviter, so users accept them through the link. For the follower.
 */
export const acceptForUsers = async (tx: Tx, userIds: readonly number[]): Promise<void> => {
  const { rows } = await sql<InvitationRow & { user_id: number }>`
    select ${sql.join(COLUMNS.map((name) => sql.ref(`i.${name}`)))}, mine.id as user_id from invitations i
    join users mine on lower(mine.public_email) = lower(i.email)
    where mine.id = any (${userIds}::bigint[]) and mine.state = 'active' and mine.confirmed_at is not null
    order by i.id for update of i`.execute(tx.db);
  for (const row of rows) await accept(inNameOf(tx, row.user_id), row, row.user_id);
};

/** Users who are already members, or have a higher level through a group above, need no membership. */
const accept = async (tx: Tx, row: InvitationRow, userId: number): Promise<void> => {
  const source = await sourceOf(tx, row);
  await tx.db.deleteFrom('invitations').where('id', '=', row.id).execute();
  if (!source) return;
  await lockSource(tx, source);
  const { access_level, expires_at, created_by_id } = row;
  try {
    await joinSource(tx, source, { user_id: userId, access_level, expires_at, created_by_id });
  } catch (error) {
    if (error instanceof DomainError && (error.code === 'conflict' || error.code === 'invalid')) return;
    throw error;
  }
  tx.emit(invitationAccepted, { ...eventOf(source, row), user_ids: [userId] });
};

/** Reads the place as the system, because the invited user cannot see it yet. */
const sourceOf = async (ctx: Context, row: InvitationRow): Promise<MemberSource | null> => {
  const asHub: Context = { ...ctx, actor: systemActor };
  if (row.namespace_id !== null) return groupSource(await getGroup(asHub, { id: row.namespace_id }));
  return row.project_id === null ? null : projectSource(await getProject(asHub, { id: row.project_id }));
};

const find = (tx: Tx, source: MemberSource, email: string) =>
  tx.db
    .selectFrom('invitations')
    .select(COLUMNS)
    .where(isOfSource(source))
    .where(sql<boolean>`lower(email) = lower(${email})`);

const eventOf = (source: MemberSource, row: InvitationRow) => {
  const payload: InvitationPayload = {
    id: row.id,
    source: sourcePayload(source),
    access_level: row.access_level,
    expires_at: row.expires_at,
  };
  return {
    ...scopeOf(source),
    subject: { type: 'Invitation', id: row.id },
    min_access_level: source.kind === 'group' ? OWNER : MAINTAINER,
    payload,
  };
};

const mailInvitation = (tx: Tx, source: MemberSource, row: InvitationRow, token: string): void => {
  const { type, full_path } = sourcePayload(source);
  const place = `the ${type.toLowerCase()} ${full_path}`;
  sendMail(tx, {
    to: row.email,
    subject: `You are invited to ${place}`,
    text: `Hello,

${tx.actor.username === null ? 'Someone' : `@${tx.actor.username}`} invites you to ${place} as ${roleName(row.access_level)}. To accept, sign in and open:

${webUrl(tx, `-/invites/${token}`)}

If you do not want to, do nothing.
`,
  });
};
