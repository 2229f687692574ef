import { type AliasedRawBuilder, sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { invalidToken } from '#platform/errors.ts';

/** The OAuth authorization through which a credential was made, directly or by a credential that was made through it. */
export interface CredentialOrigin {
  /** Null where a password was exchanged for the token without an application. */
  readonly application_id: number | null;
  /** As it was called then. */
  readonly application_name: string | null;
  /** Who had let the application in. */
  readonly authorized_by_id: number;
}

/** A column of the credentials in `table`: their origin, or null for those made without an application. */
export const originOf = (
  table: 'personal_access_tokens' | 'oauth_applications' | 'runners' | 'webhooks',
): AliasedRawBuilder<CredentialOrigin | null, 'origin'> =>
  sql<CredentialOrigin | null>`(
    select jsonb_build_object('application_id', o.application_id, 'application_name', o.application_name,
      'authorized_by_id', o.user_id)
    from credential_origins o where o.id = ${sql.ref(`${table}.origin_id`)})`.as('origin');

/**
 * What to store with a credential that is about to be made: who makes it, and through which authorization. Until the
 * transaction ends that authorization cannot end, so that whatever ends it finds the new credential.
 *
 * @throws `invalid_token` where the authorization has just ended
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

/** Stores the authorization of the access token, which is not revoked before the transaction ends. */
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
