import { afterAll, describe, expect, it } from 'vitest';
import { checkLdapPassword, LdapError, withLdap } from '#platform/ldap/client.ts';
import { type LdapServer, readServers } from '#platform/ldap/servers.ts';
import { ADMIN, ADMIN_PASSWORD, CERTIFICATE, Directory, GROUPS, hasSlapd, PEOPLE, PERSON_PASSWORD } from './slapd.ts';

// These tests need Debian's package slapd. They are reported as skipped if it is not installed.
const directory = hasSlapd ? await Directory.start() : null;
afterAll(() => directory?.remove());

const server = (options: Record<string, unknown>): LdapServer => {
  const given = { name: 'ldapmain', url: directory?.url, bind_dn: ADMIN, password: ADMIN_PASSWORD, base: PEOPLE };
  const [read] = readServers(JSON.stringify([{ ...given, group_base: GROUPS, ...options }]));
  if (!read) throw new Error('no server was read');
  return read;
};

const names = (which: LdapServer): Promise<string[]> =>
  withLdap(which, (session) => session.membersByFilter('(uid=*)'));

describe.skipIf(!hasSlapd)('a directory', () => {
  it.each([
    ['by TLS from the first byte', 'first', () => ({ url: directory?.tlsUrl })],
    ['by STARTTLS', 'second', () => ({ start_tls: true })],
  ])('is reached %s only with a certificate of a trusted authority', async (_how, uid, options) => {
    const dn = await directory?.person(uid);
    expect(await names(server({ ...options(), ca: CERTIFICATE }))).toContain(dn);
    await expect(names(server(options()))).rejects.toThrow(LdapError);
    expect(await names(server({ ...options(), verify_certificates: false }))).toContain(dn);
  });

  it('accepts no empty password or name', async () => {
    const dn = (await directory?.person('jane')) ?? '';
    expect(await checkLdapPassword(server({}), dn, PERSON_PASSWORD)).toBe(true);
    for (const [name, password] of [
      [dn, ''],
      ['', ''],
      ['', PERSON_PASSWORD],
      [dn, `${PERSON_PASSWORD}x`],
    ] as const) {
      expect(await checkLdapPassword(server({}), name, password)).toBe(false);
    }
  });

  it('answers in full or fails', async () => {
    const dn = await directory?.person('joe');
    for (let n = 0; n < 30; n++) await directory?.person(`many${n}`);
    const asJoe = server({ bind_dn: dn, password: PERSON_PASSWORD });
    expect((await names(asJoe)).length).toBeGreaterThan(30);
    await directory?.limitSize(10);
    await expect(names(asJoe)).rejects.toThrow(LdapError);
  });
});
