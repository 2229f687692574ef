import { type Selectable, sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { type CredentialOrigin, originOf, provenance } from '#domains/tokens/origins.ts';
import { requireUser } from '#domains/users/policy.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import type { OauthApplications } from '#platform/db/tables.ts';
import { forbidden, notFound, requireUnchanged, requireValid, tooLong } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { removeApplications } from './ending.ts';
import { applicationCreated, applicationUpdated } from './events.ts';
import { OAUTH_SCOPES } from './model.ts';
import { redirectUriProblem } from './redirect-uris.ts';

const storedColumns = [
  'id',
  'uid',
  'owner_id',
  'name',
  'redirect_uris',
  'scopes',
  'confidential',
  'trusted',
  'created_at',
  'updated_at',
  'created_by_id',
  'origin_id',
] as const;

const applicationColumns = [...storedColumns, originOf('oauth_applications')] as const;

/** An application as its owner sees it. Its secret is never stored, only a digest. */
export interface ApplicationRow extends Pick<Selectable<OauthApplications>, (typeof storedColumns)[number]> {
  /** The authorization it was created through, or null. */
  readonly origin: CredentialOrigin | null;
}

export interface CreatedApplication extends ApplicationRow {
  /** Returned only here. */
  readonly secret: string;
}

export interface ApplicationInput {
  readonly name: string;
  readonly redirect_uris: readonly string[];
  readonly scopes: readonly string[];
  /**
   * Whether it can keep its secret. Defaults to true. Public clients (native and single-page applications) must use
   * PKCE.
   */
  readonly confidential?: boolean | undefined;
  /** Whether users are not asked for consent. Only for instance-wide applications. */
  readonly trusted?: boolean | undefined;
}

/**
 * Registers an application of the caller. With `forHub` it belongs to the whole instance, which only administrators can
 * do. An OAuth application cannot register a trusted one.
 *
 * @throws `unauthenticated`, `forbidden`, `invalid` by attribute
 */
export const createApplication = async (
  ctx: Context,
  input: ApplicationInput,
  { forHub = false }: { readonly forHub?: boolean } = {},
): Promise<CreatedApplication> => {
  const self = requireUser(ctx);
  const { user_oauth_applications: allowed } = await getSettings(ctx);
  if (forHub) requireAdministrator(ctx);
  else if (!allowed && !ctx.actor.isAdmin) throw forbidden('Users may not register applications');
  requireOwnHand(ctx, input, null);
  await check(ctx, { ...input, owner_id: forHub ? null : self });
  const secret = newSecret();
  const row = await ctx.transaction(async (tx) => {
    const created = await tx.db
      .insertInto('oauth_applications')
      .values({
        uid: randomToken(43),
        secret_digest: digestToken(secret),
        owner_id: forHub ? null : self,
        name: input.name,
        redirect_uris: [...new Set(input.redirect_uris)],
        scopes: [...new Set(input.scopes)],
        confidential: input.confidential ?? true,
        trusted: input.trusted ?? false,
        ...(await provenance(tx)),
      })
      .returning(applicationColumns)
      .executeTakeFirstOrThrow();
    emitApplication(tx, applicationCreated, created);
    return created;
  });
  return { ...row, secret };
};

/**
 * Changes the given attributes. Issued tokens stay valid, without the scopes that it loses: these do not come back. An
 * OAuth application can change only those that it created itself. Otherwise it could redirect another application's
 * users to itself.
 *
 * @throws as `createApplication`, and `not_found`
 */
export const updateApplication = (
  ctx: Context,
  id: number,
  input: Partial<ApplicationInput>,
): Promise<ApplicationRow> =>
  ctx.transaction(async (tx) => {
    const before = await getApplication(tx, id, { lock: true });
    requireOwnHand(tx, input, before);
    const wanted = {
      name: input.name ?? before.name,
      redirect_uris: [...new Set(input.redirect_uris ?? before.redirect_uris)],
      scopes: [...new Set(input.scopes ?? before.scopes)],
      confidential: input.confidential ?? before.confidential,
      trusted: input.trusted ?? before.trusted,
    };
    await check(tx, { ...wanted, owner_id: before.owner_id });
    const updated = await tx.db
      .updateTable('oauth_applications')
      .set({ ...wanted, updated_at: sql`now()` })
      .where('id', '=', id)
      .returning(applicationColumns)
      .executeTakeFirstOrThrow();
    await narrowTokens(tx, updated);
    emitApplication(tx, applicationUpdated, updated);
    return updated;
  });

/** Takes the scopes from the tokens of the application that it does not have any more, from the next request on. */
const narrowTokens = async (tx: Tx, { id, scopes }: Pick<ApplicationRow, 'id' | 'scopes'>): Promise<void> => {
  await sql`
    update oauth_access_tokens set scopes = array(
      select scope from unnest(scopes) with ordinality as s (scope, n) where scope = any (${scopes}::text[]) order by n)
    where application_id = ${id} and revoked_at is null and not scopes <@ ${scopes}::text[]`.execute(tx.db);
};

/**
 * Deletes the application with all its codes and tokens, and ends the credentials it created.
 *
 * @throws `not_found`, `modified`
 */
export const removeApplication = (
  ctx: Context,
  id: number,
  unchangedSince: Date | null = null,
): Promise<ApplicationRow> =>
  ctx.transaction(async (tx) => {
    const application = await getApplication(tx, id, { lock: true });
    requireUnchanged(application, unchangedSince);
    await removeApplications(tx, [id]);
    return application;
  });

/**
 * Replaces the application's secret. The old one stops working, tokens stay valid. An OAuth application can do this
 * only for those that it created itself.
 *
 * @throws `not_found`, `forbidden`
 */
export const renewSecret = (ctx: Context, id: number): Promise<CreatedApplication> =>
  ctx.transaction(async (tx) => {
    requireOwnHand(tx, {}, await getApplication(tx, id, { lock: true }));
    const secret = newSecret();
    const updated = await tx.db
      .updateTable('oauth_applications')
      .set({ secret_digest: digestToken(secret), updated_at: sql`now()` })
      .where('id', '=', id)
      .returning(applicationColumns)
      .executeTakeFirstOrThrow();
    emitApplication(tx, applicationUpdated, updated);
    return { ...updated, secret };
  });

/**
 * Lists the caller's own applications by id. With `all`, lists those of every user and of the instance, for
 * administrators.
 *
 * @throws `unauthenticated`, `forbidden`
 */
export const listApplications = (
  ctx: Context,
  { all = false }: { readonly all?: boolean } = {},
): List<ApplicationRow> => {
  const self = requireUser(ctx);
  if (all) requireAdministrator(ctx);
  let query = ctx.db.selectFrom('oauth_applications').select(applicationColumns);
  if (!all) query = query.where('owner_id', '=', self);
  return listOf(ctx.db, query, [{ by: sql.ref('id'), of: (row) => row.id }], 'asc');
};

/** Returns an application of the caller, or any one for administrators. @throws `unauthenticated`, `not_found` */
export const getApplication = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  id: number,
  { lock = false }: { readonly lock?: boolean } = {},
): Promise<ApplicationRow> => {
  const self = requireUser(ctx);
  const query = ctx.db.selectFrom('oauth_applications').select(applicationColumns).where('id', '=', id);
  // Credentials that are created through it meanwhile refer to it, while they hold a token.
  const row = await (lock ? query.forNoKeyUpdate() : query).executeTakeFirst();
  if (!row || !(ctx.actor.isAdmin || row.owner_id === self)) throw notFound('Application');
  return row;
};

/** Returns the application with this `client_id`, or null. For the protocol: checks no permission. */
export const findApplicationByUid = async (
  { db }: Pick<Context, 'db'>,
  uid: string,
): Promise<ApplicationRow | null> => {
  if (!UID.test(uid)) return null;
  const row = await db
    .selectFrom('oauth_applications')
    .select(applicationColumns)
    .where('uid', '=', uid)
    .executeTakeFirst();
  return row ?? null;
};

/** Returns the applications with these ids, by id. For lists of authorised applications: checks no permission. */
export const applicationsByIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, ApplicationRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('oauth_applications')
    .select(applicationColumns)
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/**
 * Refuses changes that an OAuth application may not make to applications. `before` is null for a new one.
 *
 * @throws `forbidden`
 */
const requireOwnHand = (
  { actor }: Pick<Context, 'actor'>,
  { trusted }: Partial<ApplicationInput>,
  before: ApplicationRow | null,
): void => {
  const originId = actor.credential?.originId ?? null;
  if (originId === null) return;
  if (before && before.origin_id !== originId)
    throw forbidden('An application can change only applications that it created');
  if (trusted) throw forbidden('An application cannot mark applications as trusted');
};

const UID = /^[A-Za-z0-9_-]{1,100}$/;

const newSecret = () => `gloas-${randomToken(43)}`;

const MAX_REDIRECT_URIS = 50;
const known: ReadonlySet<string> = new Set(OAUTH_SCOPES);

const check = async (
  ctx: Pick<Context, 'services'>,
  { name, redirect_uris, scopes, trusted, owner_id }: ApplicationInput & { readonly owner_id: number | null },
): Promise<void> => {
  const { oauth_plain_http_redirects_enabled: plainHttp } = await getSettings(ctx);
  const errors: Record<string, string[]> = {};
  if (name.trim() === '') errors.name = ["can't be blank"];
  else if (isLongerThan(name, 255)) errors.name = [tooLong(255)];
  // Control and bidirectional characters could make a name look like another one on the consent page.
  else if (/[\p{Cc}\p{Cf}]/u.test(name) || !name.isWellFormed()) errors.name = ['is invalid'];
  if (redirect_uris.length > MAX_REDIRECT_URIS)
    errors.redirect_uri = [`are too many (maximum is ${MAX_REDIRECT_URIS})`];
  else {
    const problems = redirect_uris.flatMap((uri) => redirectUriProblem(uri, { plainHttp }) ?? []);
    if (problems.length > 0) errors.redirect_uri = [...new Set(problems)];
  }
  if (scopes.length === 0) errors.scopes = ["can't be blank"];
  else if (!scopes.every((scope) => known.has(scope))) errors.scopes = ["doesn't match configured on the server."];
  if (trusted && owner_id !== null) errors.trusted = ['can only be set for instance-wide applications'];
  requireValid(errors);
};

const emitApplication = (tx: Tx, definition: typeof applicationCreated, row: ApplicationRow): void => {
  const { id, uid, name, owner_id, redirect_uris, scopes, confidential, trusted } = row;
  tx.emit(definition, {
    subject: { type: 'OauthApplication', id },
    user_ids: owner_id === null ? [] : [owner_id],
    payload: { id, uid, name, owner_id, redirect_uris, scopes, confidential, trusted },
  });
};
