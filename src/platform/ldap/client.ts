import type { ConnectionOptions } from 'node:tls';
import {
  AndFilter,
  Client,
  type Entry,
  EqualityFilter,
  ExtensibleFilter,
  type Filter,
  FilterParser,
  OrFilter,
} from 'ldapts';
import type { LdapServer } from './servers.ts';

/** The directory could not be reached, or did not respond completely. The message is for operators. */
export class LdapError extends Error {
  override readonly name = 'LdapError';
}

/** A user in a directory. */
export interface LdapPerson {
  readonly dn: string;
  readonly username: string;
  readonly email: string | null;
  readonly name: string | null;
}

/** A connection that is bound as the configured account. Every result is complete; otherwise it throws an LdapError. */
export interface LdapSession {
  /** Returns the distinguished names of the members of the group with this name, or none if there is no such group. */
  membersOfGroup(cn: string): Promise<string[]>;
  /** Returns the distinguished names of the users that match the filter. */
  membersByFilter(filter: string): Promise<string[]>;
  /** Returns the user with this username, or null if there is none or more than one. */
  findPerson(username: string): Promise<LdapPerson | null>;
}

const PAGE_SIZE = 500;
/** The maximum size of a result. A larger sync is refused rather than truncated. */
const MAX_ENTRIES = 100_000;
const UIDS_PER_SEARCH = 100;
/** Active Directory's LDAP_MATCHING_RULE_IN_CHAIN: includes members of nested groups. */
const IN_CHAIN = '1.2.840.113556.1.4.1941';
const NO_ATTRIBUTES = ['1.1'];

/** Connects to the directory, runs `use`, and closes the connection. @throws LdapError */
export const withLdap = async <T>(server: LdapServer, use: (session: LdapSession) => Promise<T>): Promise<T> =>
  connected(server, async (client) => {
    await client.bind(server.bind_dn, server.password);
    return use(sessionOn(client, server));
  });

/** Returns true if the directory accepts the password of this entry. @throws LdapError if it cannot be reached */
export const checkLdapPassword = async (server: LdapServer, dn: string, password: string): Promise<boolean> => {
  // A bind without a password succeeds anonymously (RFC 4513 §5.1.2).
  if (dn === '' || password === '') return false;
  return connected(server, async (client) => {
    try {
      await client.bind(dn, password);
      return true;
    } catch (error) {
      if (codeOf(error) === INVALID_CREDENTIALS) return false;
      throw error;
    }
  });
};

const INVALID_CREDENTIALS = 49;

const codeOf = (error: unknown): number | null =>
  error instanceof Error && 'code' in error && typeof error.code === 'number' ? error.code : null;

const connected = async <T>(server: LdapServer, use: (client: Client) => Promise<T>): Promise<T> => {
  const milliseconds = server.timeout_seconds * 1_000;
  const tlsOptions: ConnectionOptions = {
    rejectUnauthorized: server.verify_certificates,
    ...(server.ca === null ? {} : { ca: server.ca }),
  };
  const client = new Client({
    url: server.url,
    timeout: milliseconds,
    connectTimeout: milliseconds,
    // The library uses TLS whenever TLS options are present.
    ...(server.url.startsWith('ldaps:') ? { tlsOptions } : {}),
    // Directories differ in how they write distinguished names.
    strictDN: false,
  });
  try {
    if (server.start_tls) await startTls(client, server, tlsOptions);
    return await use(client);
  } catch (error) {
    if (error instanceof LdapError) throw error;
    const reason = error instanceof Error ? error.message || error.name : String(error);
    throw new LdapError(`The directory ${server.name} failed: ${reason}`);
  } finally {
    await client.unbind().catch(() => {});
  }
};

/** Limits the handshake, because the library would wait for it forever. */
const startTls = async (client: Client, server: LdapServer, options: ConnectionOptions): Promise<void> => {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error('the TLS handshake took too long')), server.timeout_seconds * 1_000);
  try {
    await Promise.race([client.startTLS({ ...options, host: new URL(server.url).hostname }), late]);
  } finally {
    clearTimeout(timer);
  }
};

const sessionOn = (client: Client, server: LdapServer): LdapSession => {
  const search = async (base: string, filter: Filter, attributes: string[]): Promise<Entry[]> => {
    const entries: Entry[] = [];
    const pages = client.searchPaginated(base, {
      scope: 'sub',
      derefAliases: 'never',
      filter,
      attributes,
      paged: { pageSize: PAGE_SIZE },
      timeLimit: server.timeout_seconds,
    });
    // Referrals lead to servers that the operator did not configure, so they are not followed.
    for await (const { searchEntries } of pages) {
      entries.push(...searchEntries);
      if (entries.length > MAX_ENTRIES) throw new LdapError(`The directory ${server.name} returned too many entries`);
    }
    return entries;
  };
  const narrowed = (filter: Filter): Filter =>
    server.user_filter === null
      ? filter
      : new AndFilter({ filters: [FilterParser.parseString(server.user_filter), filter] });
  const people = async (filter: Filter): Promise<string[]> =>
    (await search(server.base, narrowed(filter), NO_ATTRIBUTES)).map(({ dn }) => dn);

  const byUids = async (uids: readonly string[]): Promise<string[]> => {
    const found: string[] = [];
    for (let start = 0; start < uids.length; start += UIDS_PER_SEARCH) {
      const filters = uids
        .slice(start, start + UIDS_PER_SEARCH)
        .map((value) => new EqualityFilter({ attribute: server.uid, value }));
      found.push(...(await people(new OrFilter({ filters }))));
    }
    return found;
  };

  return {
    membersOfGroup: async (cn) => {
      const attributes = ['member', 'uniqueMember', 'memberUid'];
      const named = new EqualityFilter({ attribute: 'cn', value: cn });
      const entries = await search(server.group_base ?? server.base, named, attributes);
      const dns = new Set<string>();
      for (const entry of entries) {
        if (server.active_directory) {
          const inChain = new ExtensibleFilter({ matchType: 'memberOf', rule: IN_CHAIN, value: entry.dn });
          for (const dn of await people(inChain)) dns.add(dn);
          continue;
        }
        for (const dn of [...textsOf(entry.member), ...textsOf(entry.uniqueMember)]) dns.add(dn);
        for (const dn of await byUids(textsOf(entry.memberUid))) dns.add(dn);
      }
      return [...dns];
    },
    membersByFilter: (filter) => people(FilterParser.parseString(filter)),
    findPerson: async (username) => {
      const filter = narrowed(new EqualityFilter({ attribute: server.uid, value: username }));
      const attributes = [server.uid, server.email, server.full_name];
      const entries = await search(server.base, filter, attributes);
      const [entry] = entries;
      if (!entry || entries.length > 1) return null;
      const [own] = textsOf(entry[server.uid]);
      const [email = null] = textsOf(entry[server.email]);
      const [name = null] = textsOf(entry[server.full_name]);
      return { dn: entry.dn, username: own ?? username, email, name };
    },
  };
};

const textsOf = (value: Buffer | Buffer[] | string[] | string | undefined): string[] =>
  [value ?? []].flat().flatMap((each) => (typeof each === 'string' && each !== '' ? [each] : []));
