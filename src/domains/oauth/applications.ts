import { type Selectable, sql } from 'kysely';
import { getSettings } from '#domains/settings/queries.ts';
import { type CredentialOrigin, originOf, provenance } from '#domains/tokens/origins.ts';
import { requireAdministrator, requireUser } from '#domains/users/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import type { OauthApplications } from '#platform/db/tables.ts';
import { forbidden, invalid, notFound } from '#platform/errors.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
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

/** An application as whoever registered it sees it. Its secret is stored nowhere. */
export interface ApplicationRow extends Pick<Selectable<OauthApplications>, (typeof storedColumns)[number]> {
  /** The application through which it was made; null where there was none. */
  readonly origin: CredentialOrigin | null;
}

export interface CreatedApplication extends ApplicationRow {
  /** The only time that it is seen. */
  readonly secret: string;
}

export interface ApplicationInput {
  readonly name: string;
  readonly redirect_uris: readonly string[];
  readonly scopes: readonly string[];
  /** Whether it can keep its secret; true by default. Others (native ones, single pages) have to use PKCE. */
  readonly confidential?: boolean | undefined;
  /** Its users are not asked for consent. For applications of the whole hub alone. */
  readonly trusted?: boolean | undefined;
}

/**
 * Registers an application of the caller's, or with `forHub` one of the whole hub, which administrators do. What an
 * application registers is not trusted: its users are asked.
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
  else if (!allowed && !ctx.actor.isAdmin) throw forbidden('users may not register applications');
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
    tell(tx, applicationCreated, created);
    return created;
  });
  return { ...row, secret };
};

/**
 * Changes what is given. Tokens that were issued stay as they are. An application changes only those that it made
 * itself, or it could lead the users of another one to itself. @throws as `createApplication`, and `not_found`
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
    tell(tx, applicationUpdated, updated);
    return updated;
  });

/** Removes the application with every code and token that it has, and ends what it made. @throws `not_found` */
export const removeApplication = (ctx: Context, id: number): Promise<ApplicationRow> =>
  ctx.transaction(async (tx) => {
    const application = await getApplication(tx, id, { lock: true });
    await removeApplications(tx, [id]);
    return application;
  });

/**
 * Gives the application another secret; the old one counts no more. Tokens stay. Applications get secrets only of those
 * that they made themselves. @throws `not_found`, `forbidden`
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
    tell(tx, applicationUpdated, updated);
    return { ...updated, secret };
  });

/**
 * The caller's own applications, or with `all` everybody's and those of the hub, for administrators. By id.
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

/** An application of the caller's, for administrators any. @throws `unauthenticated`, `not_found` */
export const getApplication = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  id: number,
  { lock = false }: { readonly lock?: boolean } = {},
): Promise<ApplicationRow> => {
  const self = requireUser(ctx);
  const query = ctx.db.selectFrom('oauth_applications').select(applicationColumns).where('id', '=', id);
  const row = await (lock ? query.forUpdate() : query).executeTakeFirst();
  if (!row || !(ctx.actor.isAdmin || row.owner_id === self)) throw notFound('Application');
  return row;
};

/** The application that calls itself by this `client_id`, or null. For the protocol: nobody's rights are asked. */
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

/** The applications with these ids, by id. For showing whom somebody let in: nobody's rights are asked. */
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

/** Refuses what an application may not do with other applications. `before` is null for a new one. @throws `forbidden` */
const requireOwnHand = (
  { actor }: Pick<Context, 'actor'>,
  { trusted }: Partial<ApplicationInput>,
  before: ApplicationRow | null,
): void => {
  const originId = actor.credential?.originId ?? null;
  if (originId === null) return;
  if (before && before.origin_id !== originId) throw forbidden('an application changes only applications that it made');
  if (trusted) throw forbidden('an application cannot make applications trusted');
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
  else if (name.length > 255) errors.name = ['is too long (maximum is 255 characters)'];
  // Control characters and those that turn the direction of text would let a name pass for another on the consent page.
  else if (/[\p{Cc}\p{Cf}]/u.test(name) || !name.isWellFormed()) errors.name = ['is invalid'];
  if (redirect_uris.length > MAX_REDIRECT_URIS)
    errors.redirect_uri = [`are too many (maximum is ${MAX_REDIRECT_URIS})`];
  else {
    const problems = redirect_uris.flatMap((uri) => redirectUriProblem(uri, { plainHttp }) ?? []);
    if (problems.length > 0) errors.redirect_uri = [...new Set(problems)];
  }
  if (scopes.length === 0) errors.scopes = ["can't be blank"];
  else if (!scopes.every((scope) => known.has(scope))) errors.scopes = ["doesn't match configured on the server."];
  if (trusted && owner_id !== null) errors.trusted = ['is for applications of the whole hub'];
  if (Object.keys(errors).length > 0) throw invalid(errors);
};

const tell = (tx: Tx, definition: typeof applicationCreated, row: ApplicationRow): void => {
  const { id, uid, name, owner_id, redirect_uris, scopes, confidential, trusted } = row;
  tx.emit(definition, {
    subject: { type: 'OauthApplication', id },
    user_ids: owner_id === null ? [] : [owner_id],
    payload: { id, uid, name, owner_id, redirect_uris, scopes, confidential, trusted },
  });
};
