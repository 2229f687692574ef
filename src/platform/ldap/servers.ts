import { FilterParser } from 'ldapts';
import { z } from 'zod';

const MAX_FILTER = 2_000;

/** Returns true for a valid search filter (RFC 4515) with outer parentheses. */
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
  /** The name in links and identities. */
  name: z.string().regex(/^ldap[a-z0-9_-]{1,50}$/, 'must start with ldap, such as ldapmain'),
  /** The label on the sign-in page. */
  label: z.string().min(1).max(100).default('LDAP'),
  url: z.string().regex(/^ldaps?:\/\/[^\s/?#@]+\/?$/, 'is not of the form ldap://host:389 or ldaps://host:636'),
  start_tls: z.boolean().default(false),
  /** PEM of the trusted certificate authorities, instead of the system's. */
  ca: z.string().startsWith('-----BEGIN ').nullable().default(null),
  verify_certificates: z.boolean().default(true),
  /** The account for searches; anonymous by default. */
  bind_dn: z.string().default(''),
  password: z.string().default(''),
  /** The base of the user search. */
  base: z.string().min(1),
  /** The base of the group search; `base` by default. */
  group_base: z.string().min(1).nullable().default(null),
  /** The attribute that users sign in with: `sAMAccountName` in an Active Directory. */
  uid: attribute.default('uid'),
  /** Limits the users that the hub can find. */
  user_filter: z.string().refine(isFilter, 'is not a filter').nullable().default(null),
  email: attribute.default('mail'),
  full_name: attribute.default('cn'),
  /** If true, nested groups are resolved with Active Directory's matching rule. */
  active_directory: z.boolean().default(false),
  /** If true, the first sign-in of a user creates an account. */
  create_users: z.boolean().default(false),
  /** The timeout of a connection and of each search. */
  timeout_seconds: z.number().int().min(1).max(300).default(10),
});

/** A directory as the operator configured it. */
export type LdapServer = Readonly<z.output<typeof server>>;

/** Reads the list of servers. @throws Error that says what is wrong and where, without repeating the input */
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
  if (new Set(names).size < names.length) throw new Error('two servers have the same name');
  return parsed.data;
};
