import { describe, expect, it } from 'vitest';
import { authenticate } from '#domains/tokens/authentication.ts';
import { stillValid } from '#domains/tokens/still-valid.ts';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { useApp } from '../support/app.ts';
import { Client } from '../support/client.ts';
import { bearer, codeFor, credentials, get, makeApplication, post, redeem, tokensFor } from './flows.ts';

const app = useApp();
const db = () => app().hub.services.db;

const INPUT = { name: 'Build lights', redirect_uri: 'https://lights.example/callback', scopes: 'read_api openid' };

const register = async (input: Record<string, unknown> = {}) => {
  const answer = await app()
    .as(app().root)
    .post('/applications', { ...INPUT, ...input });
  expect(answer.status).toBe(201);
  return answer.body;
};

const countOf = async (id: number) =>
  (await db().selectFrom('oauth_applications').select('id').where('id', '=', id).execute()).length;

describe('applications of the hub, over REST', () => {
  it('are registered with a secret that is shown once and stored as a digest', async () => {
    const { secret, ...application } = await register({
      redirect_uri: 'https://lights.example/callback\nhttp://localhost/callback',
    });
    expect(application).toEqual({
      id: expect.any(Number),
      application_id: expect.stringMatching(/^[\w-]{27,}$/),
      application_name: 'Build lights',
      callback_url: 'https://lights.example/callback\nhttp://localhost/callback',
      confidential: true,
      scopes: ['read_api', 'openid'],
      created_by_id: app().root.id,
      oauth_application: null,
    });
    expect(secret).toMatch(/^gloas-[\w-]{27,}$/);

    const list = await app().as(app().root).get('/applications?per_page=100');
    expect(list.status).toBe(200);
    expect(list.headers.get('x-page')).toBe('1');
    expect(list.body.find(({ id }: { id: number }) => id === application.id)).toEqual(application);
    const row = await db()
      .selectFrom('oauth_applications')
      .selectAll()
      .where('id', '=', application.id)
      .executeTakeFirstOrThrow();
    expect(JSON.stringify(row)).not.toContain(secret);
    expect(row.owner_id).toBeNull();
  });

  it('can be public', async () => {
    expect(await register({ confidential: false })).toMatchObject({ confidential: false });
    expect(await register({ confidential: 'False' })).toMatchObject({ confidential: false });
  });

  it('get a new secret, after which the old one is invalid', async () => {
    const { id, secret, application_id: client_id } = await register();
    const renewed = await app().as(app().root).post(`/applications/${id}/renew-secret`);
    expect(renewed.status).toBe(201);
    expect(renewed.body).toMatchObject({ id, application_id: client_id, secret: expect.stringMatching(/^gloas-/) });
    const introspect = async (client_secret: string) =>
      (
        await fetch(`${app().url}/oauth/introspect`, {
          method: 'POST',
          body: new URLSearchParams({ client_id, client_secret, token: 'none' }),
        })
      ).status;
    expect(await introspect(secret)).toBe(401);
    expect(await introspect(renewed.body.secret)).toBe(200);
  });

  it('are removed with their tokens', async () => {
    const { id } = await register();
    const gone = await app().as(app().root).delete(`/applications/${id}`);
    expect([gone.status, gone.body]).toEqual([204, '']);
    expect(await countOf(id)).toBe(0);
    expect((await app().as(app().root).delete(`/applications/${id}`)).status).toBe(404);
    expect((await app().as(app().root).post(`/applications/${id}/renew-secret`)).status).toBe(404);
  });

  it.each([
    ['no name', { name: '' }, { message: { name: ["can't be blank"] } }],
    ['a fragment', { redirect_uri: 'https://a.example/#x' }, { message: { redirect_uri: expect.any(Array) } }],
    ['a script', { redirect_uri: 'javascript:alert(1)' }, { message: { redirect_uri: expect.any(Array) } }],
    ['no scopes', { scopes: '' }, { message: { scopes: expect.any(Array) } }],
    ['an unknown scope', { scopes: 'api everything' }, { message: { scopes: expect.any(Array) } }],
    ['a bad flag', { confidential: 'perhaps' }, { error: 'confidential is invalid (allowed: true, false)' }],
    ['a list for a name', { name: ['a', 'b'] }, { error: 'name is invalid (allowed: a string)' }],
    ['a name that turns its direction', { name: 'evil\u202eelpmis' }, { message: { name: ['is invalid'] } }],
  ])('are refused with %s', async (_what, input, body) => {
    const answer = await app()
      .as(app().root)
      .post('/applications', { ...INPUT, ...input });
    expect([answer.status, answer.body]).toEqual([400, body]);
  });

  it('are for administrators only', async () => {
    const { id } = await register();
    const user = await app().make.user();
    for (const [method, path] of [
      ['GET', '/applications'],
      ['POST', '/applications'],
      ['DELETE', `/applications/${id}`],
      ['POST', `/applications/${id}/renew-secret`],
    ] as const) {
      const body = method === 'POST' ? INPUT : undefined;
      expect((await app().anonymous.request(method, path, body)).status).toBe(401);
      expect((await app().as(user).request(method, path, body)).status).toBe(403);
      expect((await app().as(app().root, ['read_user']).request(method, path, body)).status).toBe(403);
    }
    expect(await countOf(id)).toBe(1);
  });
});

const CREATE = `mutation ($input: OauthApplicationCreateInput!) {
  oauthApplicationCreate(input: $input) { secret errors oauthApplication { id applicationId name redirectUris scopes confidential owner { username } } }
}`;
const GRAPHQL_INPUT = { name: 'Own', redirectUris: ['https://own.example/cb'], scopes: ['read_user'] };

describe('applications, over GraphQL', () => {
  it('are registered, changed, renewed and removed by their owner', async () => {
    const user = await app().make.user();
    const client = app().as(user);
    const made = await client.graphql(CREATE, { input: GRAPHQL_INPUT });
    expect(made.errors).toBeUndefined();
    const { oauthApplication, secret, errors } = made.data.oauthApplicationCreate;
    expect(errors).toEqual([]);
    expect(secret).toMatch(/^gloas-/);
    expect(oauthApplication).toMatchObject({ name: 'Own', confidential: true, owner: { username: user.username } });

    const { id } = oauthApplication;
    const changed = await client.graphql(
      `mutation ($id: OauthApplicationID!) { oauthApplicationUpdate(input: { id: $id, name: "Mine", confidential: false }) { errors oauthApplication { name confidential scopes } } }`,
      { id },
    );
    expect(changed.data.oauthApplicationUpdate).toEqual({
      errors: [],
      oauthApplication: { name: 'Mine', confidential: false, scopes: ['read_user'] },
    });
    const renewed = await client.graphql(
      `mutation ($id: OauthApplicationID!) { oauthApplicationRenewSecret(input: { id: $id }) { secret } }`,
      { id },
    );
    expect(renewed.data.oauthApplicationRenewSecret.secret).not.toBe(secret);

    const list = await client.graphql('{ oauthApplications { count nodes { id name } } }');
    expect(list.data.oauthApplications).toEqual({ count: 1, nodes: [{ id, name: 'Mine' }] });
    await client.graphql(
      `mutation ($id: OauthApplicationID!) { oauthApplicationDestroy(input: { id: $id }) { errors } }`,
      { id },
    );
    expect((await client.graphql('{ oauthApplications { count } }')).data.oauthApplications.count).toBe(0);
  });

  it('report what is wrong with the input', async () => {
    const user = await app().make.user();
    const answer = await app()
      .as(user)
      .graphql(CREATE, { input: { ...GRAPHQL_INPUT, redirectUris: ['nonsense'], scopes: [] } });
    expect(answer.data.oauthApplicationCreate).toMatchObject({ oauthApplication: null, secret: null });
    expect(answer.data.oauthApplicationCreate.errors).toHaveLength(2);
  });

  it('are hidden from everyone but their owner and administrators', async () => {
    const [owner, stranger] = [await app().make.user(), await app().make.user()];
    const { id } = (await app().as(owner).graphql(CREATE, { input: GRAPHQL_INPUT })).data.oauthApplicationCreate
      .oauthApplication;
    const query = `query ($id: OauthApplicationID!) { oauthApplication(id: $id) { name } }`;
    expect((await app().as(owner).graphql(query, { id })).data.oauthApplication).toEqual({ name: 'Own' });
    expect((await app().as(stranger).graphql(query, { id })).data.oauthApplication).toBeNull();
    expect((await app().anonymous.graphql(query, { id })).data.oauthApplication).toBeNull();
    expect((await app().as(app().root).graphql(query, { id })).data.oauthApplication).toEqual({ name: 'Own' });
    for (const mutation of ['Update', 'Destroy', 'RenewSecret']) {
      const answer = await app()
        .as(stranger)
        .graphql(`mutation ($id: OauthApplicationID!) { oauthApplication${mutation}(input: { id: $id }) { errors } }`, {
          id,
        });
      expect(answer.errors?.[0]?.message).toContain('does not exist');
    }
    expect((await app().as(owner).graphql(query, { id })).data.oauthApplication).toEqual({ name: 'Own' });
  });

  it('are registered for the whole hub by administrators only', async () => {
    const user = await app().make.user();
    const input = { ...GRAPHQL_INPUT, forHub: true, trusted: true };
    const refused = await app().as(user).graphql(CREATE, { input });
    expect(refused.data.oauthApplicationCreate).toBeNull();
    expect((await app().as(user).graphql('{ oauthApplications(all: true) { count } }')).errors).toHaveLength(1);
    const made = await app().as(app().root).graphql(CREATE, { input });
    expect(made.data.oauthApplicationCreate.oauthApplication.owner).toBeNull();
    const own = await app()
      .as(user)
      .graphql(CREATE, { input: { ...GRAPHQL_INPUT, trusted: true } });
    expect(own.data.oauthApplicationCreate.errors).toHaveLength(1);
    const all = await app().as(app().root).graphql('{ oauthApplications(all: true) { nodes { name } } }');
    expect(all.data.oauthApplications.nodes.length).toBeGreaterThan(0);
  });
});

const PATH = '/-/user_settings/applications';
const FORM = {
  name: 'Desk <script>alert(1)</script>',
  redirect_uri: 'https://desk.example/cb\r\nmydesk:/cb',
  confidential: '1',
  'scopes[]': ['read_user', 'openid'],
};

describe('the pages of my applications', () => {
  it('register an application, and show its secret once', async () => {
    const { visitor, user } = await signedIn(app());
    await visitor.get(PATH);
    expect(visitor.page.text).toContain('There are none.');
    await visitor.get(`${PATH}/new`);
    const made = await visitor.submit(PATH, FORM);
    expect(made.status).toBe(200);
    const secret = /value="(gloas-[^"]+)"/.exec(made.html)?.[1];
    expect(secret).toBeDefined();
    // The name is escaped, whatever it contains.
    expect(made.html).not.toContain('<script');
    expect(made.text).toContain('Desk <script>alert(1)</script>');

    const row = await db()
      .selectFrom('oauth_applications')
      .selectAll()
      .where('owner_id', '=', user.id)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({
      confidential: true,
      trusted: false,
      redirect_uris: ['https://desk.example/cb', 'mydesk:/cb'],
      scopes: ['read_user', 'openid'],
    });
    const shown = await visitor.get(`${PATH}/${row.id}`);
    expect(shown.text).toContain(row.uid);
    expect(shown.html).not.toContain('gloas-');
    expect((await visitor.get(PATH)).text).toContain(row.uid);

    const renewed = await (async () => {
      await visitor.get(`${PATH}/${row.id}`);
      return visitor.submit(`${PATH}/${row.id}/renew_secret`);
    })();
    expect(/value="(gloas-[^"]+)"/.exec(renewed.html)?.[1]).not.toBe(secret);
  });

  it('change and delete an application', async () => {
    const { visitor, user } = await signedIn(app());
    await visitor.get(`${PATH}/new`);
    await visitor.submit(PATH, FORM);
    const { id } = await db()
      .selectFrom('oauth_applications')
      .select('id')
      .where('owner_id', '=', user.id)
      .executeTakeFirstOrThrow();
    const edit = await visitor.get(`${PATH}/${id}/edit`);
    expect(edit.html).toMatch(/value="read_user" checked/);
    const saved = await visitor.submit(`${PATH}/${id}`, {
      name: 'Desk',
      redirect_uri: '',
      'scopes[]': ['read_user'],
      trusted: '1',
    });
    // Only applications of the hub may be trusted.
    expect(saved.status).toBe(422);
    expect(
      await visitor.submit(`${PATH}/${id}`, { name: 'Desk', redirect_uri: '', 'scopes[]': ['read_user'] }),
    ).toMatchObject({ status: 303, location: `${PATH}/${id}` });
    expect((await visitor.follow()).text).toContain('The application was changed.');
    expect(visitor.page.text).toContain('None: for devices only');
    expect(visitor.page.text).toContain('Public');
    expect(await visitor.submit(`${PATH}/${id}/delete`)).toMatchObject({ status: 303, location: PATH });
    expect((await visitor.follow()).text).toContain('Desk was deleted.');
    expect(await countOf(id)).toBe(0);
  });

  it('show the errors with the input as it was typed', async () => {
    const { visitor, user } = await signedIn(app());
    await visitor.get(`${PATH}/new`);
    const refused = await visitor.submit(PATH, { name: 'Kept', redirect_uri: 'https://x.example/#frag' });
    expect(refused.status).toBe(422);
    expect(refused.html).toContain('value="Kept"');
    expect(refused.text).toContain('cannot contain a fragment');
    expect(refused.text).toContain("Scopes can't be blank");
    const rows = await db().selectFrom('oauth_applications').select('id').where('owner_id', '=', user.id).execute();
    expect(rows).toEqual([]);
  });

  it('are not for anonymous visitors, and show nothing of other users', async () => {
    const { id } = (
      await app()
        .as(await app().make.user())
        .graphql(CREATE, { input: GRAPHQL_INPUT })
    ).data.oauthApplicationCreate.oauthApplication;
    const number = Number(String(id).split('/').at(-1));
    const visitor = new Visitor(app().url);
    expect(await visitor.get(PATH)).toMatchObject({
      status: 303,
      location: `/users/sign_in?return_to=${encodeURIComponent(PATH)}`,
    });
    const { visitor: stranger } = await signedIn(app());
    await stranger.get(`${PATH}/new`);
    for (const path of [
      `${PATH}/${number}`,
      `${PATH}/${number}/edit`,
      '/admin/applications',
      '/admin/applications/new',
    ]) {
      expect([403, 404]).toContain((await stranger.get(path)).status);
      expect(stranger.page.text).not.toContain('Own');
    }
    await stranger.get(`${PATH}/new`);
    const token = stranger.csrfToken ?? '';
    for (const verb of ['', '/delete', '/renew_secret', '/revoke']) {
      const answer = await stranger.post(`${PATH}/${number}${verb}`, { ...FORM, authenticity_token: token });
      expect(answer.status).toBe(404);
    }
    expect(await countOf(number)).toBe(1);
  });

  it('refuse a form that was not served to this browser', async () => {
    const { visitor, user } = await signedIn(app());
    const { visitor: attacker } = await signedIn(app());
    await attacker.get(`${PATH}/new`);
    for (const authenticity_token of ['', 'guessed', attacker.csrfToken ?? '']) {
      expect((await visitor.post(PATH, { ...FORM, authenticity_token })).status).toBe(422);
    }
    const rows = await db().selectFrom('oauth_applications').select('id').where('owner_id', '=', user.id).execute();
    expect(rows).toEqual([]);
  });

  it('let administrators manage the applications of the hub', async () => {
    const { visitor } = await signedIn(app(), { is_admin: true });
    await visitor.get('/admin/applications/new');
    const made = await visitor.submit('/admin/applications', { ...FORM, name: 'Hub-wide', trusted: '1' });
    expect(made.status).toBe(200);
    expect(made.text).toContain('trusted');
    const row = await db()
      .selectFrom('oauth_applications')
      .select(['id', 'owner_id', 'trusted'])
      .where('name', '=', 'Hub-wide')
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ owner_id: null, trusted: true });
    const owner = await app().make.user();
    await app().as(owner).graphql(CREATE, { input: GRAPHQL_INPUT });
    const list = await visitor.get('/admin/applications?page=1');
    expect(list.text).toContain('Hub-wide');
    expect(list.text).toContain(`@${owner.username}`);
  });
});

describe('an application that loses scopes', () => {
  const narrow = async (owner: { readonly id: number; readonly username: string }, id: number, scopes: string[]) => {
    const { data } = await app()
      .as(owner)
      .graphql(
        `mutation ($id: OauthApplicationID!, $scopes: [String!]) {
          oauthApplicationUpdate(input: { id: $id, scopes: $scopes }) { errors } }`,
        { id: `gid://gitlab/OauthApplication/${id}`, scopes },
      );
    expect(data.oauthApplicationUpdate.errors).toEqual([]);
  };

  it('takes them from its tokens, from the next request and event on', async () => {
    const user = await app().make.user();
    const [wide, other] = [await makeApplication(app(), user), await makeApplication(app(), user)];
    const scope = 'openid api email';
    const { access_token } = await tokensFor(app(), user, wide, { scope });
    const kept = await tokensFor(app(), user, other, { scope });
    const as = new Client(app().url, () => Promise.resolve(access_token));
    expect((await as.post('/projects', { name: 'before' })).status).toBe(201);
    expect((await as.get('/user')).status).toBe(200);
    const { services } = app().hub;
    const actor = await authenticate(services, { kind: 'token', value: access_token }, { sudo: null });
    expect((await stillValid(services, [actor])).size).toBe(1);
    await narrow(user, wide.id, ['email', 'openid']);
    expect((await stillValid(services, [actor])).size).toBe(0);
    expect((await as.get('/user')).status).toBe(403);
    expect((await as.post('/api/graphql', { query: '{ currentUser { username } }' })).status).toBe(403);
    expect(await as.post('/projects', { name: 'after' })).toMatchObject({
      status: 403,
      body: { error: 'insufficient_scope' },
    });
    expect((await get(app(), '/oauth/userinfo', bearer(access_token))).body).toHaveProperty('email');
    expect((await get(app(), '/oauth/token/info', bearer(access_token))).body.scope).toEqual(['openid', 'email']);
    const inspected = await post(app(), '/oauth/introspect', { ...credentials(wide), token: access_token });
    expect(inspected.body).toMatchObject({ active: true, scope: 'openid email' });
    expect((await get(app(), '/api/v4/user', bearer(kept.access_token))).status).toBe(200);
    // The user allowed what the application was then. It asks again for more.
    await narrow(user, wide.id, ['email', 'openid', 'api']);
    expect((await as.get('/user')).status).toBe(403);
  });

  it('gets no token with them from a code of before', async () => {
    const user = await app().make.user();
    const wide = await makeApplication(app(), user);
    const scope = 'openid api';
    const [some, none] = [
      await codeFor(app(), user, wide, { scope }),
      await codeFor(app(), user, wide, { scope: 'api' }),
    ];
    await narrow(user, wide.id, ['openid']);
    const { body } = await redeem(app(), wide, some);
    expect(body).toMatchObject({ scope: 'openid', id_token: expect.any(String) });
    expect((await get(app(), '/api/v4/user', bearer(body.access_token))).status).toBe(403);
    expect(await redeem(app(), wide, none)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } });
  });
});
