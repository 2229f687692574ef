import { createUser } from '#domains/users/commands.ts';
import { namespacePathProblems } from '#domains/users/namespace-path.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { DomainError, forbidden } from '#platform/errors.ts';
import { nameVariants } from '#platform/ldap/names.ts';
import { randomToken } from '#platform/secrets.ts';

/** A person whom an external provider (LDAP or SAML) has authenticated. */
export interface ExternalPerson {
  /** The provider's name in identities: `saml`, `ldapmain`. */
  readonly provider: string;
  /** The stable id at the provider. Compared exactly, except case-insensitively for directories. */
  readonly externUid: string;
  readonly email: string | null;
  readonly name: string | null;
  readonly username: string | null;
}

/**
 * Returns the user for an authenticated person. Only the identity at the provider counts. If there is none, an account
 * is created when that is allowed. An existing account with the same address or name is never linked: anyone who can
 * choose their address at the provider could otherwise take over any account.
 *
 * @throws `forbidden` with a reason to show
 */
export const userOfPerson = async (
  ctx: Context,
  person: ExternalPerson,
  { mayCreate }: { readonly mayCreate: boolean },
): Promise<number> => {
  const known = await findUser(ctx, person);
  if (known !== null) return known;
  if (!mayCreate) throw forbidden('Your account is not linked yet. Ask an administrator to do that.');
  if (person.email === null)
    throw forbidden('No account could be created: your provider did not send your e-mail address.');
  try {
    return await create(ctx, person, person.email);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    // Two concurrent first sign-ins of one person lead to one account.
    const other = await findUser(ctx, person);
    if (other !== null) return other;
    if (error.code === 'conflict') {
      throw forbidden('An account with your address already exists. Ask an administrator to link it.');
    }
    ctx.log.warn(
      { err: error, provider: person.provider },
      'Could not create an account for a person from an external provider',
    );
    throw forbidden('No account could be created from the data that your provider sent.');
  }
};

const findUser = async ({ db }: Context, { provider, externUid }: ExternalPerson): Promise<number | null> => {
  let query = db
    .selectFrom('identities')
    .innerJoin('users', 'users.id', 'identities.user_id')
    .select('identities.user_id')
    .where('identities.provider', '=', provider)
    .where('identities.saml_provider_id', 'is', null)
    .where('users.user_type', '=', 'human');
  query = provider.startsWith('ldap')
    ? query.where((where) => where(where.fn('lower', ['identities.extern_uid']), 'in', nameVariants(externUid)))
    : query.where('identities.extern_uid', '=', externUid);
  return (await query.executeTakeFirst())?.user_id ?? null;
};

const USERNAME_TAKEN = 'Username has already been taken';
const TRIES = 10;

/** Creates the account under the rules for new addresses and names. If the name is taken, a number is appended. */
const create = async (ctx: Context, person: ExternalPerson, email: string): Promise<number> => {
  const system = createContextFactory(ctx.services)({ ...ctx, actor: systemActor });
  const wanted = usernameFrom(person);
  for (let attempt = 0; ; attempt++) {
    const suffix = attempt === 0 ? '' : attempt < TRIES ? String(attempt) : `-${randomToken(8)}`;
    try {
      const { id } = await createUser(system, {
        email,
        username: `${wanted}${suffix}`,
        name: person.name?.trim().slice(0, MAX_NAME) || wanted,
        provider: person.provider,
        extern_uid: person.externUid,
        force_random_password: true,
        // The operator trusts the provider's addresses.
        skip_confirmation: true,
      });
      return id;
    } catch (error) {
      const isTaken = error instanceof DomainError && error.message.includes(USERNAME_TAKEN);
      if (!isTaken || attempt > TRIES) throw error;
    }
  }
};

const MAX_NAME = 200;
const MAX_USERNAME = 100;

const usernameFrom = ({ username, email, externUid }: ExternalPerson): string => {
  const [local = ''] = (username ?? email ?? externUid).split('@');
  const clean = local
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9_.-]+/g, '')
    .replace(/^[-.]+/, '')
    .replace(/\.(git|atom)$/i, '')
    .replace(/\.+$/, '')
    .slice(0, MAX_USERNAME);
  return namespacePathProblems(clean, { topLevel: true }).length === 0 ? clean : 'user';
};
