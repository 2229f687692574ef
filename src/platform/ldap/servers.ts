import { FilterParser } from 'ldapts';
import { z } from 'zod';

const MAX_FILTER = 2_000;

/** Whether this is a search filter (RFC 4515), with its outer parentheses, that a directory can be asked with. */
export const isFilter = (text: string): boolean => {
  if (text.length > MAX_FILTER || !/^\(.*\)$/s.test(text)) return false;
  try {
    FilterParser.parseString(text);
    return true;
  } catch {
    return false;
  }
};

const attribute = z.string().regex(/^[A-Za-z][A-Za-z0-9;-]*$/, 'is not the name of an attribute');

const server = z.strictObject({
  /** As links and identities name it. */
  name: z.string().regex(/^ldap[a-z0-9_-]{1,50}$/, 'has to begin with ldap, as in ldapmain'),
  /** On the page to sign in. */
  label: z.string().min(1).max(100).default('LDAP'),
  url: z.string().regex(/^ldaps?:\/\/[^\s/?#@]+\/?$/, 'is not of the form ldap://host:389 or ldaps://host:636'),
  start_tls: z.boolean().default(false),
  /** PEM of the certificate authorities that count, instead of the well-known ones. */
  ca: z.string().startsWith('-----BEGIN ').nullable().default(null),
  verify_certificates: z.boolean().default(true),
  /** Whom the hub searches as; nobody by default. */
  bind_dn: z.string().default(''),
  password: z.string().default(''),
  /** Where people are. */
  base: z.string().min(1),
  /** Where groups are; where people are by default. */
  group_base: z.string().min(1).nullable().default(null),
  /** The attribute that people sign in with: `sAMAccountName` in an Active Directory. */
  uid: attribute.default('uid'),
  /** Narrows whom the hub knows of. */
  user_filter: z.string().refine(isFilter, 'is not a filter').nullable().default(null),
  email: attribute.default('mail'),
  full_name: attribute.default('cn'),
  /** Groups in groups are asked for in its way. */
  active_directory: z.boolean().default(false),
  /** Whether who signs in for the first time gets an account. */
  create_users: z.boolean().default(false),
  /** Of a connection and of each search. */
  timeout_seconds: z.number().int().min(1).max(300).default(10),
});

/** A directory, as the operator configured it. */
export type LdapServer = Readonly<z.output<typeof server>>;

/** Reads the list of servers. @throws an error that says what is wrong and where, but not what was there */
export const readServers = (json: string): readonly LdapServer[] => {
  let given: unknown;
  try {
    given = JSON.parse(json);
  } catch {
    throw new Error('is not JSON');
  }
  const parsed = z.array(server).max(20).safeParse(given);
  if (!parsed.success) {
    throw new Error(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '));
  }
  const names = parsed.data.map(({ name }) => name);
  if (new Set(names).size < names.length) throw new Error('two servers have one name');
  return parsed.data;
};
