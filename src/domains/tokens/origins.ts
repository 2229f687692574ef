import { type AliasedRawBuilder, sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { invalidToken } from '#platform/errors.ts';

/** The OAuth authorization through which a credential was created, directly or through a credential created with it. */
export interface CredentialOrigin {
  /** Null when a password was exchanged for the token without an application. */
  readonly application_id: number | null;
  /** The application's name at that time. */
  readonly application_name: string | null;
  /** The user who authorised the application. */
  readonly authorized_by_id: number;
}

/** Selects the origin of the credentials in `table`, or null for those created without an application. */
export const originOf = (
  table: 'personal_access_tokens' | 'oauth_applications' | 'runners' | 'webhooks',
): AliasedRawBuilder<CredentialOrigin | null, 'origin'> =>
  sql<CredentialOrigin | null>`(
    select jsonb_build_object('application_id', o.application_id, 'application_name', o.application_name,
      'authorized_by_id', o.user_id)
    from credential_origins o where o.id = ${sql.ref(`${table}.origin_id`)})`.as('origin');

/**
 * Returns the columns to store with a new credential: its creator and the authorization it was created through. Locks
 * the authorization until the transaction ends, so that code that ends it also finds the new credential.
 *
 * @throws `invalid_token` when the authorization has just ended
 */
export const provenance = async (
  tx: Tx,
): Promise<{ readonly created_by_id: number | null; readonly origin_id: string | null }> => {
  const { credential, userId } = tx.actor;
  if (!credential) return { created_by_id: userId, origin_id: null };
  const { kind, id, holderId: created_by_id, originId: origin_id } = credential;
  if (origin_id === null) return { created_by_id, origin_id };
  if (kind === 'oauth_token') await rememberOrigin(tx, id);
  const { rows } = await sql`
    select from credential_origins where id = ${origin_id} and ended_at is null for share`.execute(tx.db);
  if (rows.length === 0) throw ended();
  return { created_by_id, origin_id };
};

/** Stores the authorization of the access token, and locks the token against revocation until the transaction ends. */
const rememberOrigin = async (tx: Tx, accessTokenId: number): Promise<void> => {
  const token = await tx.db
    .selectFrom('oauth_access_tokens')
    .select(['family_id', 'user_id', 'application_id'])
    .where('id', '=', accessTokenId)
    .where('revoked_at', 'is', null)
    .forShare()
    .executeTakeFirst();
  if (!token) throw ended();
  await sql`
    insert into credential_origins (id, user_id, application_id, application_name)
    values (${token.family_id}, ${token.user_id}, ${token.application_id},
      (select name from oauth_applications where id = ${token.application_id}))
    on conflict (id) do nothing`.execute(tx.db);
};

const ended = () => invalidToken('Token was revoked. You have to re-authorize from the user.');
