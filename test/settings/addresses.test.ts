import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { startHub } from '#app/build.ts';
import { assume, authenticate } from '#domains/tokens/authentication.ts';
import { sweepAddresses } from '#domains/users/client-addresses.ts';
import { hashPassword } from '#domains/users/password.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';
import { Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import { Client } from '../support/client.ts';

// The proxy of these tests forwards the address of the caller.
const PROXIES = '127.0.0.1, ::1, ::ffff:127.0.0.1';
const app = useApp({ env: { MILLRACE_TRUSTED_PROXIES: PROXIES } });
const from = (ip: string) => ({ 'x-forwarded-for': ip });
const ROOT = from('192.0.2.1');
const set = async (settings: Record<string, unknown>) =>
  expect((await app().as(app().root).put('/application/settings', settings, ROOT)).status).toBe(200);

describe('globally_allowed_ips', () => {
  it('names addresses that the networks of groups never exclude', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const client = app().as(owner);
    const restrict = (ranges: string, ip: string) =>
      client.put(`/groups/${group.id}`, { ip_restriction_ranges: ranges }, from(ip));
    expect((await restrict('198.51.100.0/24', '203.0.113.5')).status).toBe(400);
    expect((await restrict('198.51.100.0/24', '198.51.100.7')).status).toBe(200);
    const statuses = async () => {
      const one = async (ip: string) => (await client.get(`/groups/${group.id}`, from(ip))).status;
      return [await one('198.51.100.7'), await one('203.0.113.5'), await one('2001:db8::5')];
    };
    expect(await statuses()).toEqual([200, 404, 404]);
    await set({ globally_allowed_ips: '203.0.113.0/28, 2001:db8::/32' });
    expect(await statuses()).toEqual([200, 200, 200]);
    // An Owner at such an address cannot lock themselves out.
    expect((await restrict('198.51.100.0/25', '203.0.113.5')).status).toBe(200);
    await set({ globally_allowed_ips: '' });
    expect(await statuses()).toEqual([200, 404, 404]);
    // Every list that is accepted takes effect.
    for (const list of ['203.0.113.5 2001:db8::5', '203.0.113.0/24\n2001:db8::/32\n', '2001:db8::5,\r\n203.0.113.5']) {
      await set({ globally_allowed_ips: list });
      expect([list, await statuses()]).toEqual([list, [200, 200, 200]]);
      await set({ globally_allowed_ips: '' });
    }
    for (const list of ['203.0.113.7, 10.1', '0x7f.1', '203.0.113.5;2001:db8::5', '203.0.113.5/']) {
      const { status, body } = await app()
        .as(app().root)
        .put('/application/settings', { globally_allowed_ips: list }, ROOT);
      expect([list, status, Object.keys(body.message)]).toEqual([list, 400, ['globally_allowed_ips']]);
    }
  });
});

describe('unique_ips_limit_enabled', () => {
  beforeEach(() =>
    set({ unique_ips_limit_enabled: false, unique_ips_limit_per_user: 2, unique_ips_limit_time_window: 3600 }),
  );
  const age = (userId: number, ip: string, seconds: number) =>
    sql`update user_addresses set last_seen_at = now() - make_interval(secs => ${seconds})
      where user_id = ${userId} and address = ${ip}`.execute(app().hub.services.db);

  it('lets a user send requests from so many addresses, over all interfaces', async () => {
    const user = await app().make.user();
    const project = await app().make.project({ visibility: 'private' }, user);
    const client = app().as(user);
    const rest = async (ip: string) => (await client.get('/user', from(ip))).status;
    for (const ip of ['203.0.113.1', '203.0.113.2', '203.0.113.3']) expect(await rest(ip)).toBe(200);
    await set({ unique_ips_limit_enabled: true });
    expect([await rest('203.0.113.1'), await rest('203.0.113.1'), await rest('203.0.113.2')]).toEqual([200, 200, 200]);
    const refused = await client.get('/user', from('203.0.113.3'));
    expect([refused.status, refused.body]).toEqual([
      403,
      {
        message:
          '403 Forbidden - You use too many addresses at once. Use one of your other addresses, or try again later.',
      },
    ]);
    const query = { query: '{ currentUser { username } }' };
    expect((await client.post('/api/graphql', query, from('203.0.113.3'))).status).toBe(403);
    expect((await client.post('/api/graphql', query, from('203.0.113.2'))).status).toBe(200);
    const basic = Buffer.from(`oauth2:${await app().tokenOf(user)}`).toString('base64');
    const fetchRefs = async (ip: string) =>
      (
        await fetch(`${app().url}/${project.path_with_namespace}.git/info/refs?service=git-upload-pack`, {
          headers: { authorization: `Basic ${basic}`, ...from(ip) },
        })
      ).status;
    expect([await fetchRefs('203.0.113.3'), await fetchRefs('203.0.113.1')]).toEqual([403, 200]);
    // Anonymous requests and other users are not affected.
    expect((await app().anonymous.get('/version', from('203.0.113.3'))).status).toBe(401);
    expect(
      (
        await app()
          .as(await app().make.user())
          .get('/user', from('203.0.113.3'))
      ).status,
    ).toBe(200);
  });

  it('counts an IPv6 network as one address, and sudo for the administrator who uses it', async () => {
    await set({ unique_ips_limit_enabled: true, unique_ips_limit_per_user: 1 });
    const user = await app().make.user();
    const rest = async (ip: string) => (await app().as(user).get('/user', from(ip))).status;
    expect([await rest('2001:db8::1'), await rest('2001:db8::2'), await rest('2001:db8:0:1::1')]).toEqual([
      200, 200, 403,
    ]);
    const root = app().as(app().root, ['api', 'sudo']);
    expect((await root.get('/user', { ...ROOT, sudo: user.username })).body.username).toBe(user.username);
    expect((await root.get('/user', { ...from('203.0.113.9'), sudo: user.username })).status).toBe(403);
  });

  it('forgets an address after the time window, and keeps the addresses in use when the limit falls', async () => {
    await set({ unique_ips_limit_enabled: true });
    const user = await app().make.user();
    const rest = async (ip: string) => (await app().as(user).get('/user', from(ip))).status;
    expect([await rest('203.0.113.1'), await rest('203.0.113.2'), await rest('203.0.113.3')]).toEqual([200, 200, 403]);
    await age(user.id, '203.0.113.1', 3_601);
    expect(await rest('203.0.113.3')).toBe(200);
    await set({ unique_ips_limit_per_user: 1 });
    expect([await rest('203.0.113.3'), await rest('203.0.113.2'), await rest('203.0.113.1')]).toEqual([403, 200, 403]);
    await age(user.id, '203.0.113.3', 3_601);
    const ctx = app().context();
    await sweepAddresses.run(ctx, {}, { attempt: 1, lastAttempt: false });
    const { rows } = await sql<{ address: string }>`
      select address from user_addresses where user_id = ${user.id}`.execute(ctx.db);
    expect(rows).toEqual([{ address: '203.0.113.2' }]);
  });

  it('gives no place to a cached token that was revoked', async () => {
    await set({ unique_ips_limit_enabled: true });
    const { services } = app().hub;
    const user = await app().make.user();
    const value = await app().tokenOf(user);
    const token = { kind: 'token', value } as const;
    const tokens = () => services.db.updateTable('personal_access_tokens').where('user_id', '=', user.id);
    await tokens().set({ last_used_at: sql<string>`now()` }).execute();
    await services.db
      .updateTable('users')
      .set({ last_activity_on: sql<string>`current_date` })
      .where('id', '=', user.id)
      .execute();
    const known = { sudo: null, ip: '203.0.113.1' };
    await authenticate(services, token, known);
    expect((await assume(services, token, known))?.actor.userId).toBe(user.id);
    await tokens().set({ revoked: true }).execute();
    expect((await app().as(user).get('/projects', from('203.0.113.2'))).status).toBe(401);
    expect(await assume(services, token, { ...known, ip: '203.0.113.2' })).toBeNull();
    const { rows } = await sql<{ address: string }>`
      select address from user_addresses where user_id = ${user.id}`.execute(services.db);
    expect(rows).toEqual([{ address: '203.0.113.1' }]);
  });

  it('counts over all processes, and gives the last place to one of two addresses', async () => {
    await set({ unique_ips_limit_enabled: true });
    const { databaseUrl, dataDir } = app().hub.services.config;
    const second = await startHub({
      config: readConfig([], {
        DATABASE_URL: databaseUrl ?? '',
        MILLRACE_DATA_DIR: dataDir,
        MILLRACE_PORT: '0',
        MILLRACE_ROLE: 'web',
        MILLRACE_TRUSTED_PROXIES: PROXIES,
      }),
      log: createLogger('silent'),
    });
    try {
      const user = await app().make.user();
      const token = await app().tokenOf(user);
      const elsewhere = new Client(second.url, () => Promise.resolve(token));
      expect((await elsewhere.get('/user', from('203.0.113.1'))).status).toBe(200);
      const statuses = await Promise.all(
        [2, 3, 4, 5].map(async (n) => {
          const client = n % 2 === 0 ? elsewhere : app().as(user);
          return (await client.get('/user', from(`203.0.113.${n}`))).status;
        }),
      );
      expect(statuses.sort()).toEqual([200, 403, 403, 403]);
    } finally {
      await second.close();
    }
  });

  it('refuses to start a session at one address too many', async () => {
    await set({ unique_ips_limit_enabled: true, unique_ips_limit_per_user: 1 });
    const user = await app().make.user({ password_hash: await hashPassword(PASSWORD) });
    const signIn = async (ip: string) => {
      const visitor = new Visitor(app().url, from(ip));
      await visitor.get('/users/sign_in');
      return visitor.submit('/users/sign_in', { login: user.username, password: PASSWORD });
    };
    expect((await signIn('203.0.113.1')).status).toBe(303);
    const refused = await signIn('203.0.113.2');
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining('too many addresses')]);
  });
});
