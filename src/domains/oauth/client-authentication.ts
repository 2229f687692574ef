import { timingSafeEqual } from 'node:crypto';
import type { Context } from '#platform/context.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { type ApplicationRow, findApplicationByUid } from './applications.ts';
import { invalidClient, invalidRequest } from './protocol-error.ts';

/** The client's credentials (RFC 6749 §2.3): HTTP Basic, or parameters in the body. */
export interface ClientCredentials {
  /** Id and secret, already decoded. */
  readonly basic: { readonly id: string; readonly secret: string } | null;
  readonly client_id: string | null;
  readonly client_secret: string | null;
}

/**
 * Authenticates the calling application. Confidential clients must send their secret, public ones only their id.
 *
 * @throws OAuthError `invalid_client`; `invalid_request` for contradictory credentials
 */
export const authenticateClient = async (
  ctx: Pick<Context, 'db'>,
  { basic, client_id, client_secret }: ClientCredentials,
): Promise<ApplicationRow> => {
  if (basic && client_secret !== null) throw invalidRequest('The client authenticated in two ways.');
  if (basic && client_id !== null && client_id !== basic.id) throw invalidRequest('The client gave two ids.');
  const application = await findApplicationByUid(ctx, basic?.id ?? client_id ?? '');
  // Some public clients send their id by HTTP Basic with an empty secret.
  const secret = (basic ? basic.secret : client_secret) || null;
  if (secret === null) {
    if (!application || application.confidential) throw invalidClient();
    return application;
  }
  const expected = application ? await secretDigestOf(ctx, application.id) : decoy;
  const right = timingSafeEqual(digestToken(secret), expected);
  if (!application || !right) throw invalidClient();
  return application;
};

/** Compared when there is no such client, so that the response takes as long. */
const decoy = digestToken(randomToken());

const secretDigestOf = async ({ db }: Pick<Context, 'db'>, id: number): Promise<Buffer> =>
  (await db.selectFrom('oauth_applications').select('secret_digest').where('id', '=', id).executeTakeFirst())
    ?.secret_digest ?? decoy;
