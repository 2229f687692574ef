import { checkGuardedLogin } from '#domains/users/credentials.ts';
import type { Context } from '#platform/context.ts';
import { DomainError, notFound } from '#platform/errors.ts';
import { checkLdapPassword, LdapError, withLdap } from '#platform/ldap/client.ts';
import { userOfPerson } from './external.ts';
import { type SignInStep, signInAs } from './sign-in.ts';

const MAX_LENGTH = 256;

/**
 * Signs in through a directory: looks the user name up and tries the password on the entry. Failures count as they do
 * for local passwords.
 *
 * @throws `unauthenticated`; `too_many_requests`; `forbidden` with a reason; `not_found` for a directory that is not
 * configured; `unavailable` when the directory does not answer
 */
export const signInByLdap = async (
  ctx: Context,
  provider: string,
  { login, password }: { readonly login: string; readonly password: string },
): Promise<SignInStep> => {
  const server = ctx.services.config.ldapServers.find(({ name }) => name === provider);
  if (!server) throw notFound();
  const person = await checkGuardedLogin(ctx, `${provider}:${login}`, async () => {
    if (login === '' || login.length > MAX_LENGTH || password === '' || password.length > MAX_LENGTH) return null;
    try {
      const found = await withLdap(server, (session) => session.findPerson(login));
      return found && (await checkLdapPassword(server, found.dn, password)) ? found : null;
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      ctx.log.warn({ err: error, provider }, 'Could not reach a directory for a sign-in');
      throw new DomainError('unavailable', 'The directory is not answering. Try again in a moment.', {
        retryAfterSeconds: 30,
      });
    }
  });
  const { dn: externUid, email, name, username } = person;
  const known = { provider, externUid, email, name, username };
  return signInAs(ctx, await userOfPerson(ctx, known, { mayCreate: server.create_users }));
};
