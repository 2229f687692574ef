import { createUser } from '#domains/users/commands.ts';
import { namespacePathProblems } from '#domains/users/namespace-path.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { DomainError, forbidden } from '#platform/errors.ts';
import { nameVariants } from '#platform/ldap/names.ts';
import { randomToken } from '#platform/secrets.ts';

/** Somebody whom a provider (a directory, a SAML provider) has proved to be who they are there. */
export interface ExternalPerson {
  /** As identities name it: `saml`, `ldapmain`. */
  readonly provider: string;
  /** Who it is there, for good. Compared exactly, but for directories without regard to case. */
  readonly externUid: string;
  readonly email: string | null;
  readonly name: string | null;
  readonly username: string | null;
}

/**
 * The user that the person is here, by the identity at the provider and nothing else. Where there is none an account is
 * made, if that is allowed. An account that happens to have the same address or name is never taken for theirs:
 * who could name any address at the provider could take over any account.
 *
 * @throws DomainError `forbidden` with a reason to show
 */
export const userOfPerson = async (
  ctx: Context,
  person: ExternalPerson,
  { mayCreate }: { readonly mayCreate: boolean },
): Promise<number> => {
  const known = await findUser(ctx, person);
  if (known !== null) return known;
  if (!mayCreate) throw forbidden('Your account is not linked yet. Ask an administrator to do that.');
  if (person.email === null) throw forbidden('No account could be made: your provider does not tell your address.');
  try {
    return await create(ctx, person, person.email);
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    // Two who come at once for the first time are one.
    const other = await findUser(ctx, person);
    if (other !== null) return other;
    if (error.code === 'conflict') {
      throw forbidden('There is an account with your address already. Ask an administrator to link it.');
    }
    ctx.log.warn({ err: error, provider: person.provider }, 'no account could be made for somebody of a provider');
    throw forbidden('No account could be made with what your provider tells of you.');
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

/** The rules for new addresses hold, and those for names; a name that is taken gets a number. */
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
        // The operator trusts the provider to know its people's addresses.
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
