import type { Context } from '#platform/context.ts';
import { DomainError, forbidden } from '#platform/errors.ts';
import { checkGuarded } from './credentials.ts';
import { verifyPassword } from './password.ts';

/** What applications send beside a change of how somebody comes in. */
export interface ApplicationProof {
  /** The password of the person who let the application in. */
  readonly current_password?: string | undefined;
}

/**
 * Has an application, or a caller with a credential that one made, prove that the person who let it in wants the change:
 * addresses, passwords, identities, second factors and who is an administrator decide who comes in when the application
 * has been shut out. Guessing is guarded as it is for signing in. Other callers pass.
 *
 * @throws `forbidden` without the password or with a wrong one, `too_many_requests`
 */
export const requireProofOfApplication = async (
  ctx: Context,
  { current_password: password }: ApplicationProof,
): Promise<void> => {
  const { credential } = ctx.actor;
  if (credential === null || credential.originId === null) return;
  if (password === undefined) {
    throw forbidden(
      'Applications cannot change how people come in: use the pages, or send the password of the person who let the application in as current_password',
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

const WRONG = 'The password is not right';

/** Who had let the application in. */
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
