import { createClient as createWsClient } from 'graphql-ws';
import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { csrfToken } from '#platform/caller/csrf.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = useApp();
const db = () => app().hub.services.db;
const MUTATION = 'mutation { groupCreate(input: { name: "x", path: "PATH" }) { group { id } errors } }';

let count = 0;
const nextPath = () => `of-session-${++count}`;

/** Inserts a session, as signing in does. */
const signedIn = async (user: TestUser, expires_at = '2999-01-01T00:00:00Z') => {
  const value = randomToken(43);
  await db()
    .insertInto('sessions')
    .values({ user_id: user.id, digest: digestToken(value), expires_at, last_used_at: '2020-01-01T00:00:00Z' })
    .execute();
  return { value, cookie: `millrace_session=${value}`, csrf: csrfToken(app().hub.services.secretKey, value) };
};

const groupExists = async (path: string) =>
  (await db().selectFrom('namespaces').select('id').where('full_path', '=', path).executeTakeFirst()) !== undefined;

describe('a session cookie', () => {
  it('allows reading by REST and GraphQL', async () => {
    const user = await app().make.user();
    const { cookie } = await signedIn(user);
    expect((await app().anonymous.get('/user', { cookie })).body.username).toBe(user.username);
    expect((await app().anonymous.get('/user', { cookie: `other=1; ${cookie}; more=2` })).body.id).toBe(user.id);
    const query = encodeURIComponent('{ currentUser { username } }');
    const { body } = await app().anonymous.get(`/api/graphql?query=${query}`, { cookie });
    expect(body.data.currentUser.username).toBe(user.username);
  });

  it('changes nothing without the CSRF token of the same session', async () => {
    const user = await app().make.user();
    const { cookie, csrf } = await signedIn(user);
    const other = await signedIn(user);
    const tries: Record<string, string>[] = [
      { cookie },
      { cookie, 'x-csrf-token': 'x' },
      { cookie, 'x-csrf-token': other.csrf },
    ];
    for (const headers of tries) {
      const path = nextPath();
      expect((await app().anonymous.post('/groups', { name: 'x', path }, headers)).status).toBe(401);
      expect((await app().anonymous.request('DELETE', '/user/status', undefined, headers)).status).not.toBe(204);
      const { body } = await app().anonymous.request(
        'POST',
        '/api/graphql',
        { query: MUTATION.replace('PATH', path) },
        headers,
      );
      expect(body.errors).toHaveLength(1);
      expect(await groupExists(path)).toBe(false);
    }
    const path = nextPath();
    const headers = { cookie, 'x-csrf-token': csrf };
    expect((await app().anonymous.post('/groups', { name: 'x', path }, headers)).status).toBe(201);
    const another = nextPath();
    const { body } = await app().anonymous.request(
      'POST',
      '/api/graphql',
      { query: MUTATION.replace('PATH', another) },
      headers,
    );
    expect(body.data.groupCreate.errors).toEqual([]);
    expect(await groupExists(another)).toBe(true);
  });

  it.each([
    ['text/plain', (query: string) => JSON.stringify({ query })],
    ['application/x-www-form-urlencoded', (query: string) => new URLSearchParams({ query }).toString()],
    ['application/graphql', (query: string) => query],
    [
      'multipart/form-data; boundary=x',
      (query: string) => `--x\r\nContent-Disposition: form-data; name="query"\r\n\r\n${query}\r\n--x--\r\n`,
    ],
  ])('allows no change by a form of another site, sent as %s', async (type, write) => {
    const { cookie } = await signedIn(await app().make.user());
    const path = nextPath();
    const response = await fetch(`${app().url}/api/graphql`, {
      method: 'POST',
      headers: { cookie, 'content-type': type, origin: 'https://evil.example' },
      body: write(MUTATION.replace('PATH', path)),
    });
    await response.text();
    const rest = await fetch(`${app().url}/api/v4/groups`, {
      method: 'POST',
      headers: { cookie, 'content-type': 'application/x-www-form-urlencoded' },
      body: `name=x&path=${path}`,
    });
    expect(rest.status).toBe(401);
    expect(await groupExists(path)).toBe(false);
    // Without it, browsers hide the answer from the other site.
    expect(response.headers.get('access-control-allow-credentials')).toBeNull();
  });

  it('is ignored if there is a token', async () => {
    const [user, other] = [await app().make.user(), await app().make.user()];
    const { cookie } = await signedIn(user);
    const token = await app().tokenOf(other);
    expect((await app().anonymous.get('/user', { cookie, 'private-token': token })).body.id).toBe(other.id);
    expect((await app().anonymous.get(`/user?private_token=${token}`, { cookie })).body.id).toBe(other.id);
    expect((await app().anonymous.get('/user', { cookie, 'private-token': 'glpat-wrong' })).status).toBe(401);
  });

  it('is ignored if it is unknown, expired, sent twice or of a blocked account', async () => {
    const user = await app().make.user();
    const over = await signedIn(user, '2020-01-01T00:00:00Z');
    const fine = await signedIn(user);
    for (const cookie of [
      'millrace_session=unknown',
      over.cookie,
      `${fine.cookie}; ${over.cookie}`,
      'millrace_session=',
    ]) {
      expect((await app().anonymous.get('/user', { cookie })).status).toBe(401);
      expect((await app().anonymous.get('/projects', { cookie })).status).toBe(200);
    }
    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', user.id).execute();
    expect((await app().anonymous.get('/user', { cookie: fine.cookie })).status).toBe(401);
  });

  it('is not accepted by git or for sudo', async () => {
    const user = await app().make.user();
    const { cookie } = await signedIn(app().root);
    const project = await app().make.project({ visibility: 'private' }, user);
    const git = await fetch(`${app().url}/${project.path_with_namespace}.git/info/refs?service=git-upload-pack`, {
      headers: { cookie },
    });
    expect(git.status).toBe(401);
    expect((await app().anonymous.get(`/user?sudo=${user.id}`, { cookie })).status).toBe(403);
  });

  it('records the activity of the user, and extends the session', async () => {
    const user = await app().make.user();
    const { cookie, value } = await signedIn(user);
    await app().anonymous.get('/user', { cookie });
    const row = await until('the use is noted', async () => {
      const found = await db()
        .selectFrom('sessions as s')
        .innerJoin('users as u', 'u.id', 's.user_id')
        .select(['s.last_used_at', 's.expires_at', 'u.current_sign_in_at', 'u.last_activity_on'])
        .where('s.digest', '=', digestToken(value))
        .executeTakeFirstOrThrow();
      return found.current_sign_in_at ? found : null;
    });
    expect(row.last_used_at > '2025').toBe(true);
    expect(row.expires_at < '2999').toBe(true);
    expect(row.last_activity_on).toBe(new Date().toISOString().slice(0, 10));
  });
});

describe('a live connection', () => {
  const open = (
    cookie: string,
    connectionParams: Record<string, unknown> = {},
    headers: Record<string, string> = {},
  ) => {
    class Socket extends WebSocket {
      constructor(url: string, protocols: string[]) {
        super(url, protocols, { headers: { cookie, ...headers } });
      }
    }
    return createWsClient({
      url: `${app().url.replace('http', 'ws')}/api/graphql`,
      webSocketImpl: Socket,
      connectionParams,
      retryAttempts: 0,
    });
  };
  const ask = (client: ReturnType<typeof open>, query: string) =>
    new Promise<string>((resolve) => {
      client.subscribe(
        { query },
        {
          next: (value) => resolve(JSON.stringify(value)),
          error: (error) => resolve(`failed ${JSON.stringify(error)}`),
          complete: () => resolve('complete'),
        },
      );
    });

  it('requires the CSRF token on a WebSocket, which allows changes', async () => {
    const user = await app().make.user();
    const { cookie, csrf } = await signedIn(user);
    const query = '{ currentUser { username } }';
    expect(await ask(open(cookie), query)).toBe('{"data":{"currentUser":null}}');
    expect(await ask(open(cookie, { 'X-CSRF-Token': csrf }), query)).toContain(user.username);
    const foreign = await ask(open(cookie, { 'X-CSRF-Token': csrf }, { origin: 'https://evil.example' }), query);
    expect(foreign).toContain('failed');
  });

  const followed = async (headers: Record<string, string>) => {
    const query = 'subscription { events(kinds: ["nothing.ever"]) { cursor } }';
    const response = await fetch(`${app().url}/api/graphql?query=${encodeURIComponent(query)}`, {
      headers: { ...headers, accept: 'text/event-stream' },
    });
    const state = { ended: false, text: '' };
    void (async () => {
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? []) state.text += decoder.decode(chunk);
      state.ended = true;
    })().catch(() => {
      state.ended = true;
    });
    await until('the stream is open', () => state.text.includes(':'));
    return state;
  };

  it("ends with its session or its application's token, even without events", async () => {
    const user = await app().make.user();
    const { cookie, value } = await signedIn(user);
    const token = randomToken(43);
    await db()
      .insertInto('oauth_access_tokens')
      .values({ user_id: user.id, digest: digestToken(token), scopes: ['read_api'], family_id: crypto.randomUUID() })
      .execute();
    const streams = await Promise.all([
      followed({ cookie }),
      followed({ authorization: `Bearer ${token}` }),
      followed({ 'private-token': await app().tokenOf(user) }),
    ]);
    await db().deleteFrom('sessions').where('digest', '=', digestToken(value)).execute();
    await db()
      .updateTable('oauth_access_tokens')
      .set({ expires_at: '2020-01-01T00:00:00Z' })
      .where('digest', '=', digestToken(token))
      .execute();
    await until('the session and the token are over', () => streams[0]?.ended && streams[1]?.ended);
    expect(streams[2]?.ended).toBe(false);
    await db().updateTable('users').set({ state: 'banned' }).where('id', '=', user.id).execute();
    await until('the account is closed', () => streams[2]?.ended);
    expect(streams.every(({ text }) => text.includes('event: complete'))).toBe(true);
  });
});

describe('the explorer', () => {
  it('gets the CSRF token of the session, and nobody else does', async () => {
    const { cookie, csrf } = await signedIn(await app().make.user());
    const ask = (headers: Record<string, string>) => app().anonymous.get('/-/graphql-explorer/token', headers);
    const { headers, body } = await ask({ cookie });
    expect([body, headers.get('cache-control')]).toEqual([{ token: csrf }, 'no-store']);
    expect(headers.get('access-control-allow-origin')).toBeNull();
    expect((await ask({})).body).toEqual({ token: null });
    const page = await (await fetch(`${app().url}/-/graphql-explorer`)).text();
    expect(page).toContain('X-CSRF-Token');
    expect(page).not.toContain(csrf);
  });
});

describe('a hub behind TLS', () => {
  const secure = useApp({ env: { MILLRACE_EXTERNAL_URL: 'https://hub.example' } });

  it('accepts only a cookie with the __Host- prefix, which browsers bind to the host', async () => {
    const value = randomToken(43);
    await secure()
      .hub.services.db.insertInto('sessions')
      .values({ user_id: secure().root.id, digest: digestToken(value), expires_at: '2999-01-01T00:00:00Z' })
      .execute();
    const ask = async (cookie: string) => (await secure().anonymous.get('/user', { cookie })).status;
    expect(await ask(`__Host-millrace_session=${value}`)).toBe(200);
    expect(await ask(`millrace_session=${value}`)).toBe(401);
  });
});
