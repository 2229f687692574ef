import type { Context } from '#platform/context.ts';
import { DomainError, forbidden } from '#platform/errors.ts';
import { checkGuarded } from './credentials.ts';
import { verifyPassword } from './password.ts';

/** The extra input for OAuth applications that change how somebody signs in. */
export interface ApplicationProof {
  /** The password of the user who authorised the application. */
  readonly current_password?: string | undefined;
}

/**
 * Requires the password of the user who authorised the application, when the caller is an OAuth application or uses a
 * credential that one created. Addresses, passwords, identities, second factors and administrator rights would
 * otherwise let an application keep its access after it is revoked. Guesses are rate-limited as for sign-in. Other
 * callers pass.
 *
 * @throws `forbidden` when the password is missing or wrong, `too_many_requests`
 */
export const requireProofOfApplication = async (
  ctx: Context,
  { current_password: password }: ApplicationProof,
): Promise<void> => {
  const { credential } = ctx.actor;
  if (credential === null || credential.originId === null) return;
  if (password === undefined) {
    throw forbidden(
      'Applications cannot change how users sign in. Use the web pages, or send the password of the user who authorised the application as current_password',
    );
  }
  const person = await personBehind(ctx, credential.originId);
  if (!person) throw forbidden(WRONG);
  try {
    await checkGuarded(ctx, person.id, () => verifyPassword(person.password_hash, password));
  } catch (error) {
    throw error instanceof DomainError && error.code === 'unauthenticated' ? forbidden(WRONG) : error;
  }
};

const WRONG = 'The password is wrong';

/** Finds the user who authorised the application. */
const personBehind = ({ db }: Context, originId: string) =>
  db
    .selectFrom('users')
    .select(['id', 'password_hash'])
    .where('id', 'in', (query) =>
      query
        .selectFrom('oauth_access_tokens')
        .select('user_id')
        .where('family_id', '=', originId)
        .union(query.selectFrom('credential_origins').select('user_id').where('id', '=', originId)),
    )
    .executeTakeFirst();
