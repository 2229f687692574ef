import { sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import type { Settings } from '#domains/settings/registry.ts';
import { networkOf } from '#platform/caller/network.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import type { Context, Tx } from '#platform/context.ts';
import { DomainError, type FieldErrors, forbidden, invalid, requireValid } from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';
import { reportTaken } from './accounts/conflicts.ts';
import { accountErrors, insertAccount } from './accounts/creation.ts';
import { attributeErrors, passwordErrors } from './attributes.ts';
import { sendConfirmation } from './mails/confirmation.ts';
import { mailSignUp, SIGN_UP_HOURS } from './mails/sign-up.ts';
import { askForApproval } from './mails/states.ts';
import { hashPassword } from './password.ts';
import type { UserRow } from './queries.ts';

/** How many registrations are accepted from one client address, and for one mail address, within an hour. */
const PER_PLACE = { limit: 30, seconds: 3_600 };
const PER_ADDRESS = { limit: 5, seconds: 3_600 };

/** The input of a person who registers. There are no other attributes, so nobody registers as an administrator. */
export interface Registration {
  readonly name: string;
  readonly username: string;
  readonly email: string;
  /** Ignored if new addresses must be confirmed: the password is chosen when the mailed link is opened. */
  readonly password: string;
}

type Person = Omit<Registration, 'password'>;

/** Whether people can register: the setting `signup_enabled`, while passwords open the web. */
export const isRegistrationOpen = async (ctx: Pick<Context, 'services'>): Promise<boolean> => {
  const settings = await getSettings(ctx);
  return settings.signup_enabled && settings.password_authentication_enabled_for_web;
};

/**
 * Registers a person who has no account. If new addresses must be confirmed, only stores the registration and mails a
 * link: the account is created, and its password chosen, when the link is opened (`confirmSignUp`). Neither the response,
 * its duration nor a later sign-in then reveals whether an account has the address. Otherwise creates the account at
 * once, and a taken address has to be told.
 *
 * @throws `forbidden` while registration is closed, `invalid` by attribute, `conflict` for a taken address or name,
 * `too_many_requests`
 */
export const register = async (ctx: Context, { password, ...person }: Registration): Promise<void> => {
  const settings = await requireOpen(ctx);
  const confirming = settings.send_user_confirmation_email;
  await count(ctx, `sign-ups:ip:${ctx.client.ip === null ? 'none' : networkOf(ctx.client.ip)}`, PER_PLACE);
  const errors: Record<string, readonly string[]> = {
    ...accountErrors(settings, person),
    ...(confirming ? {} : chosenPasswordErrors(settings, password)),
  };
  // User names are public: they are in the address of every profile.
  if (!errors.username && (await isNameTaken(ctx, person.username))) errors.username = ['has already been taken'];
  requireValid(errors);
  await count(ctx, `sign-ups:email:${person.email.toLowerCase()}`, PER_ADDRESS);
  if (!confirming) {
    const creation = { settings, passwordHash: await hashPassword(password), confirmed: false };
    await reportTaken(() => ctx.transaction((tx) => createAccount(tx, person, creation)));
    return;
  }
  await ctx.transaction(async (tx) => {
    const { id } = await tx.db
      .insertInto('sign_ups')
      .values({ ...person, expires_at: sql`now() + make_interval(hours => ${SIGN_UP_HOURS})` })
      .returning('id')
      .executeTakeFirstOrThrow();
    // The job looks the address up, so that this request takes the same time for known and unknown ones.
    tx.enqueue(mailSignUp, { id });
  });
};

/** Returns the registration that a mailed token stands for, or null when the token is invalid, used or expired. */
export const findSignUp = async (
  { db }: Pick<Context, 'db'>,
  token: string,
): Promise<Pick<Person, 'email' | 'username'> | null> =>
  (await db
    .selectFrom('sign_ups')
    .select(['email', 'username'])
    .where('digest', '=', digestToken(token))
    .where('expires_at', '>', sql<string>`now()`)
    .executeTakeFirst()) ?? null;

/** The input of a person on the page of the mailed link. */
export interface Confirmation {
  readonly password: string;
  /** Replaces the chosen name, which somebody else may have taken meanwhile. */
  readonly username?: string | undefined;
}

/**
 * Creates the account of a registration whose address was confirmed by its mailed link. The rules are checked again. A
 * refusal leaves the link usable.
 *
 * @throws `forbidden` while registration is closed; `invalid` (`confirmation_token`) for a bad token, or by attribute;
 * `conflict` for a taken address or name
 */
export const confirmSignUp = async (
  ctx: Context,
  token: string,
  { password, username }: Confirmation,
): Promise<UserRow> => {
  const settings = await requireOpen(ctx);
  // Strangers must not make the hub hash passwords.
  if ((await findSignUp(ctx, token)) === null) throw invalid(BAD_LINK);
  requireValid(chosenPasswordErrors(settings, password));
  const passwordHash = await hashPassword(password);
  return reportTaken(() =>
    ctx.transaction(async (tx) => {
      const taken = await tx.db
        .deleteFrom('sign_ups')
        .where('digest', '=', digestToken(token))
        .where('expires_at', '>', sql<string>`now()`)
        .returning(['email', 'username', 'name'])
        .executeTakeFirst();
      if (!taken) throw invalid(BAD_LINK);
      const person = { ...taken, username: username ?? taken.username };
      requireValid(accountErrors(settings, person));
      const user = await createAccount(tx, person, { settings, passwordHash, confirmed: true });
      await tx.db.deleteFrom('sign_ups').where(sql<boolean>`lower(email) = lower(${person.email})`).execute();
      return user;
    }),
  );
};

const chosenPasswordErrors = (settings: Settings, password: string): FieldErrors => ({
  ...attributeErrors({ password }),
  ...passwordErrors(password, settings.minimum_password_length),
});

const BAD_LINK = { confirmation_token: ['is invalid or has expired'] };

/**
 * Creates the account, which waits for an administrator if the settings demand it. An unconfirmed address may be
 * somebody else's, so it does not make a user internal (`user_default_internal_regex`).
 */
const createAccount = async (
  tx: Tx,
  person: Person,
  creation: { readonly settings: Settings; readonly passwordHash: string; readonly confirmed: boolean },
): Promise<UserRow> => {
  const waits = creation.settings.require_admin_approval_after_user_signup;
  const account = creation.confirmed ? person : { ...person, external: creation.settings.user_default_external };
  const user = await insertAccount(tx, account, { ...creation, state: waits ? 'blocked_pending_approval' : 'active' });
  if (!creation.confirmed) await sendConfirmation(tx, user.id, user.email);
  if (waits) await askForApproval(tx, user);
  return user;
};

const requireOpen = async (ctx: Context): Promise<Settings> => {
  if (!(await isRegistrationOpen(ctx))) throw forbidden(REGISTRATION_CLOSED);
  return getSettings(ctx);
};

export const REGISTRATION_CLOSED = 'Registration is closed on this hub. Ask an administrator for an account.';

const count = async ({ services }: Context, key: string, rule: typeof PER_PLACE): Promise<void> => {
  const { allowed, retryAfterSeconds } = await hit(services, key, rule);
  if (allowed) return;
  throw new DomainError('too_many_requests', 'There were too many registrations. Try again later.', {
    retryAfterSeconds,
  });
};

const isNameTaken = async ({ db }: Context, username: string): Promise<boolean> => {
  const { rows } = await sql<{ taken: boolean }>`
    select exists (select 1 from users where lower(username) = lower(${username}))
      or exists (select 1 from namespaces where lower(full_path) = lower(${username})) as taken`.execute(db);
  return rows[0]?.taken ?? false;
};
