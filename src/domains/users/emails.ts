import { sql } from 'kysely';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { DomainError, forbidden, invalid, notFound, requireValid } from '#platform/errors.ts';
import { mailSecurityNotice } from './account-mails.ts';
import { requireFreeAddress } from './addresses.ts';
import { attributeErrors } from './attributes.ts';
import { emailAdded, emailRemoved } from './events.ts';
import { endMailTokens } from './mail-tokens.ts';
import { sendConfirmation } from './mails/confirmation.ts';
import { isInternal } from './model.ts';
import { requireUser } from './policy.ts';
import { type ApplicationProof, requireProofOfApplication } from './proof.ts';
import { getUser } from './queries.ts';

/** A secondary address. */
export interface EmailRow {
  readonly id: number;
  readonly user_id: number;
  readonly email: string;
  readonly confirmed_at: string | null;
  readonly created_at: string;
}

const columns = ['id', 'user_id', 'email', 'confirmed_at', 'created_at'] as const;

const MAX_ADDRESSES = 50;

/** A limit, so that an account cannot be used to send mail to strangers. */
const CONFIRMATIONS = { limit: 20, seconds: 3_600 };

/**
 * Allows callers their own addresses, and administrators everyone's. @throws `forbidden`; `not_found` (User) for
 * administrators
 */
const authorise = async (ctx: Context, userId: number): Promise<void> => {
  const self = requireUser(ctx);
  if (userId === self) return;
  if (!ctx.actor.isAdmin) throw forbidden();
  await getUser(ctx, userId);
};

/** The secondary addresses of a user, oldest first. */
export const listEmails = async (ctx: Context, userId: number): Promise<List<EmailRow>> => {
  await authorise(ctx, userId);
  const query = ctx.db.selectFrom('emails').select(columns).where('user_id', '=', userId);
  return listOf(ctx.db, query, [{ by: sql`emails.id`, of: (row) => row.id }], 'asc');
};

/** Returns all of the caller's secondary addresses, for their page. The number is limited. */
export const allEmailsOfCaller = async (ctx: Context): Promise<EmailRow[]> =>
  (await listEmails(ctx, requireUser(ctx))).rows({ limit: MAX_ADDRESSES + 1 });

/** Returns one secondary address by id. @throws `not_found` (Email), also for addresses of other users */
export const getEmail = async (ctx: Context, userId: number, id: number): Promise<EmailRow> => {
  await authorise(ctx, userId);
  const row = await ctx.db
    .selectFrom('emails')
    .select(columns)
    .where('id', '=', id)
    .where('user_id', '=', userId)
    .executeTakeFirst();
  if (!row) throw notFound('Email');
  return row;
};

/** Returns the address with that id, of any user, if the caller may see it. @throws `not_found` (Email) */
export const getEmailById = async (ctx: Context, id: number): Promise<EmailRow> => {
  const self = requireUser(ctx);
  const row = await ctx.db.selectFrom('emails').select(columns).where('id', '=', id).executeTakeFirst();
  if (!row || (row.user_id !== self && !ctx.actor.isAdmin)) throw notFound('Email');
  return row;
};

/** Returns the user's confirmed addresses, the primary one first. Commits and profiles may show these. */
export const confirmedEmailsOf = async (ctx: Pick<Context, 'db'>, userId: number): Promise<string[]> => {
  const { rows } = await sql<{ email: string }>`
    select email from (
      select email, 0 as id from users where id = ${userId} and confirmed_at is not null
      union all
      select email, id from emails where user_id = ${userId} and confirmed_at is not null
    ) as known order by id`.execute(ctx.db);
  return rows.map(({ email }) => email);
};

/** Returns those of the addresses that some user has confirmed, in lower case. */
export const confirmedAmong = async (
  ctx: Pick<Context, 'db'>,
  emails: readonly string[],
): Promise<ReadonlySet<string>> => {
  const wanted = [...new Set(emails.map((email) => email.toLowerCase()))];
  const { rows } = await sql<{ email: string }>`
    select lower(email) as email from users where lower(email) = any (${wanted}::text[]) and confirmed_at is not null
    union
    select lower(email) from emails where lower(email) = any (${wanted}::text[]) and confirmed_at is not null`.execute(
    ctx.db,
  );
  return new Set(rows.map(({ email }) => email));
};

export interface NewEmail extends ApplicationProof {
  readonly email: string;
  /** Marks the address as confirmed without a mail. Administrators only. */
  readonly skip_confirmation?: boolean | undefined;
}

/**
 * Adds an address and mails it a confirmation link. Only administrators learn here that another account has the
 * address; other callers learn it when they open the link. OAuth applications must send `current_password`.
 *
 * @throws `forbidden`, `not_found` (User), `invalid` (email), `too_many_requests`
 */
export const addEmail = async (ctx: Context, userId: number, input: NewEmail): Promise<EmailRow> => {
  await authorise(ctx, userId);
  const { email } = input;
  const skip = Boolean(input.skip_confirmation);
  if (skip && !ctx.actor.isAdmin) throw forbidden();
  const errors = attributeErrors({ email });
  requireValid(errors);
  await requireProofOfApplication(ctx, input);
  if (!skip) await guard(ctx, userId);
  return ctx.transaction(async (tx) => {
    const user = await tx.db
      .selectFrom('users')
      .select(['email', 'user_type'])
      .where('id', '=', userId)
      .forUpdate()
      .executeTakeFirstOrThrow();
    if (isInternal(user)) throw forbidden('Internal accounts cannot be changed');
    const { rows: own } = await sql<{ same: boolean }>`
      select lower(email) = lower(${email}) as same from emails where user_id = ${userId}
      union all select lower(${user.email}) = lower(${email})`.execute(tx.db);
    if (own.some(({ same }) => same)) throw invalid({ email: ['has already been taken'] });
    if (own.length > MAX_ADDRESSES) throw invalid({ base: [`An account has at most ${MAX_ADDRESSES} more addresses`] });
    if (ctx.actor.isAdmin) await requireFreeAddress(tx, email, userId);
    const row = await tx.db
      .insertInto('emails')
      .values({ user_id: userId, email, confirmed_at: skip ? sql`now()` : null })
      .returning(columns)
      .executeTakeFirstOrThrow();
    if (!skip) await sendConfirmation(tx, userId, email);
    tx.emit(emailAdded, {
      subject: { type: 'User', id: userId },
      user_ids: [userId],
      payload: { user_id: userId, email },
    });
    await mailSecurityNotice(tx, userId, {
      subject: 'An address was added to your account',
      what: `The e-mail address ${email} was added to your account.`,
    });
    return row;
  });
};

/** Mails a new confirmation link to an unconfirmed address. @throws `not_found`, `invalid`, `too_many_requests` */
export const resendConfirmation = async (ctx: Context, id: number): Promise<EmailRow> => {
  const row = await getEmailById(ctx, id);
  if (row.confirmed_at !== null) throw invalid({ email: ['was already confirmed'] });
  await guard(ctx, row.user_id);
  await ctx.transaction((tx) => sendConfirmation(tx, row.user_id, row.email));
  return row;
};

const guard = async (ctx: Context, userId: number): Promise<void> => {
  const count = await hit(ctx.services, `confirmations:${userId}`, CONFIRMATIONS);
  if (count.allowed) return;
  throw new DomainError('too_many_requests', 'Too many confirmation mails were requested. Try again later.', {
    retryAfterSeconds: count.retryAfterSeconds,
  });
};

/**
 * Removes a secondary address, also from the profile and from new commits. OAuth applications must send
 * `current_password`.
 */
export const removeEmail = async (
  ctx: Context,
  { id, user_id }: EmailRow,
  proof: ApplicationProof = {},
): Promise<void> => {
  await authorise(ctx, user_id);
  await requireProofOfApplication(ctx, proof);
  await ctx.transaction(async (tx) => {
    const { rows: gone } = await sql<{ email: string }>`
      with gone as (delete from emails where id = ${id} and user_id = ${user_id} returning email),
      shown as (
        update users u set
          public_email = case when lower(u.public_email) = lower(gone.email) then '' else u.public_email end,
          commit_email = case when lower(u.commit_email) = lower(gone.email) then null else u.commit_email end,
          unconfirmed_email = case when lower(u.unconfirmed_email) = lower(gone.email) then null else u.unconfirmed_email end,
          updated_at = now()
        from gone where u.id = ${user_id})
      select email from gone`.execute(tx.db);
    const email = gone[0]?.email;
    if (email === undefined) throw notFound('Email');
    await endMailTokens(tx, 'confirm_email', user_id, email);
    await endMailTokens(tx, 'reset_password', user_id, email);
    tx.emit(emailRemoved, { subject: { type: 'User', id: user_id }, user_ids: [user_id], payload: { user_id, email } });
    await mailSecurityNotice(tx, user_id, {
      subject: 'An address was removed from your account',
      what: `The e-mail address ${email} was removed from your account.`,
    });
  });
};
