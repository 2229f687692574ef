import { beforeAll, describe, expect, it } from 'vitest';
import type { CreatedApplication } from '#domains/oauth/applications.ts';
import { revokeAuthorization } from '#domains/oauth/tokens.ts';
import { Visitor } from '../pages/visitor.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { Client } from '../support/client.ts';
import type { TestGroup } from '../support/factories.ts';
import { mutate } from '../support/graphql.ts';
import { untilBlocked } from '../support/locks.ts';
import { apiStatus, ask, credentials, makeApplication, post, REDIRECT_URI, tokensFor } from './flows.ts';

const app = useApp();
const root = () => app().as(app().root);

let ada: TestUser;
let group: TestGroup;
let account: { id: number };

beforeAll(async () => {
  ada = await app().make.user();
  group = await app().make.group({}, ada);
  account = (await app().as(ada).post(`/groups/${group.id}/service_accounts`)).body;
});

const clientWith = (token: string) => new Client(app().url, () => Promise.resolve(token));

/** Creates an application that the user has authorized, and a client with its access token. */
const letIn = async (user: TestUser = ada, scope = 'api') => {
  const application = await makeApplication(app(), app().root, { name: 'Intruder', scopes: scope.split(' ') });
  const { access_token } = await tokensFor(app(), user, application, { scope });
  return { application, access_token, client: clientWith(access_token) };
};

const shutOut = ({ id }: CreatedApplication, user: TestUser = ada) => revokeAuthorization(app().context(user), id);

const tokensPath = () => `/groups/${group.id}/service_accounts/${account.id}/personal_access_tokens`;
const makeToken = async (client: Client): Promise<{ id: number; token: string }> => {
  const { status, body } = await client.post(tokensPath(), { name: 'left behind', scopes: ['api'] });
  expect(status).toBe(201);
  return body;
};

const payloadsOf = async (kind: string, id: number) => {
  const { rows } = await app().hub.services.pool.query<{ payload: Record<string, unknown> }>(
    'select payload from events where kind = $1 and subject_id = $2 order by id',
    [kind, id],
  );
  return rows.map(({ payload }) => payload);
};

/** Runs the function while the setting is off. */
const withoutEnding = async (run: () => Promise<void>): Promise<void> => {
  await root().put('/application/settings', { oauth_grants_end_credentials: false });
  try {
    await run();
  } finally {
    await root().put('/application/settings', { oauth_grants_end_credentials: true });
  }
};

describe('a token that an application created', () => {
  it('is shown with the application and the user, over REST, GraphQL and in its events', async () => {
    const { application, client } = await letIn();
    const made = await makeToken(client);
    const oauth_application = { id: application.id, name: 'Intruder', authorized_by_id: ada.id };
    expect(made).toMatchObject({ created_by_id: ada.id, oauth_application });
    const listed = (await app().as(ada).get(tokensPath())).body.find(({ id }: { id: number }) => id === made.id);
    expect(listed).toMatchObject({ created_by_id: ada.id, oauth_application });
    expect((await root().get(`/personal_access_tokens/${made.id}`)).body).toMatchObject({ oauth_application });

    const query = `query ($path: ID!, $user: UserID!) {
      group(fullPath: $path) { serviceAccountTokens(userId: $user, first: 50) { nodes {
        id createdBy { username } origin { applicationId applicationName authorizedBy { username } } } } } }`;
    const { data } = await app()
      .as(ada)
      .graphql(query, { path: group.full_path, user: `gid://gitlab/User/${account.id}` });
    const by = { username: ada.username };
    expect(data.group.serviceAccountTokens.nodes).toContainEqual({
      id: `gid://gitlab/PersonalAccessToken/${made.id}`,
      createdBy: by,
      origin: {
        applicationId: `gid://gitlab/OauthApplication/${application.id}`,
        applicationName: 'Intruder',
        authorizedBy: by,
      },
    });
    const origin = { application_id: application.id, application_name: 'Intruder', authorized_by_id: ada.id };
    expect(await payloadsOf('token.created', made.id)).toMatchObject([{ created_by_id: ada.id, origin }]);
    await shutOut(application);
    expect(await payloadsOf('token.revoked', made.id)).toMatchObject([{ created_by_id: ada.id, origin }]);
  });

  it('ends with the grant, together with the tokens that it created and that replaced it', async () => {
    const { application, client } = await letIn();
    const first = await makeToken(client);
    const create = `mutation { personalAccessTokenCreate(input: { name: "child", scopes: ["read_api"] }) {
      token personalAccessToken { origin { applicationName } } } }`;
    const second = (await clientWith(first.token).graphql(create)).data.personalAccessTokenCreate;
    const rotated = (await clientWith(first.token).post('/personal_access_tokens/self/rotate')).body;
    expect(second.personalAccessToken.origin).toEqual({ applicationName: application.name });
    expect(await apiStatus(app(), second.token)).toBe(200);
    expect(await apiStatus(app(), rotated.token)).toBe(200);
    await shutOut(application);
    for (const { token } of [second, rotated]) expect(await apiStatus(app(), token)).toBe(401);
    const { rows } = await app().hub.services.pool.query(
      `select from living_credentials c join credential_origins o on o.id = c.origin_id where o.application_id = $1`,
      [application.id],
    );
    expect(rows).toEqual([]);
  });

  it.each([
    [
      'the application gives the grant up',
      async ({ application, access_token }: Awaited<ReturnType<typeof letIn>>) => {
        await post(app(), '/oauth/revoke', { ...credentials(application), token: access_token });
      },
    ],
    [
      'the application is removed',
      async ({ application }: Awaited<ReturnType<typeof letIn>>) => {
        expect((await root().delete(`/applications/${application.id}`)).status).toBe(204);
      },
    ],
  ] as const)('ends when %s', async (_what, end) => {
    const granted = await letIn();
    const { token } = await makeToken(granted.client);
    expect(await apiStatus(app(), token)).toBe(200);
    await end(granted);
    expect(await apiStatus(app(), token)).toBe(401);
  });

  it('ends when the user who authorized or the user who registered the application is removed', async () => {
    const [person, owner] = [await app().make.user(), await app().make.user()];
    await app().make.groupMember(group, person, 50);
    const first = await letIn(person);
    const application = await makeApplication(app(), owner);
    const second = clientWith((await tokensFor(app(), ada, application, { scope: 'api' })).access_token);
    const made = [await makeToken(first.client), await makeToken(second)];
    for (const { token } of made) expect(await apiStatus(app(), token)).toBe(200);
    for (const { id } of [person, owner]) expect((await root().delete(`/users/${id}`)).status).toBe(204);
    await app().settle();
    for (const { token } of made) expect(await apiStatus(app(), token)).toBe(401);
  });

  it('can be found and revoked even after the tokens of the application have expired', async () => {
    const { application, client } = await letIn();
    const { token } = await makeToken(client);
    await app().hub.services.pool.query(
      `update oauth_access_tokens set expires_at = now(), refresh_digest = null where application_id = $1`,
      [application.id],
    );
    const query = '{ currentUser { authorizedApplications { id credentialsCount scopes } } }';
    const { data } = await app().as(ada).graphql(query);
    const id = `gid://gitlab/OauthApplication/${application.id}`;
    expect(data.currentUser.authorizedApplications).toContainEqual({ id, credentialsCount: 1, scopes: [] });
    await shutOut(application);
    expect(await apiStatus(app(), token)).toBe(401);
    await expect(shutOut(application)).rejects.toThrow('Application');
  });

  it('survives if the setting says so, and still shows its application', async () => {
    const { application, client } = await letIn();
    const { id, token } = await makeToken(client);
    await withoutEnding(async () => {
      await shutOut(application);
      expect(await apiStatus(app(), token)).toBe(200);
      const { body } = await root().get(`/personal_access_tokens/${id}`);
      expect(body.oauth_application).toEqual({ id: application.id, name: 'Intruder', authorized_by_id: ada.id });
    });
    // Turning the setting on later does not affect a grant that ended before.
    expect(await apiStatus(app(), token)).toBe(200);
  });

  it('is no longer created once the grant has ended, however late the request arrives', async () => {
    const { application, access_token } = await letIn();
    const { pool } = app().hub.services;
    await app().settle();
    const busy = await pool.connect();
    try {
      // The request is authenticated, and waits for the row of its token, which the revocation has locked.
      await busy.query('begin');
      await busy.query('select from oauth_access_tokens where application_id = $1 for update', [application.id]);
      const late = clientWith(access_token).post(tokensPath(), { name: 'late', scopes: ['api'] });
      await untilBlocked(app());
      await busy.query('update oauth_access_tokens set revoked_at = now() where application_id = $1', [application.id]);
      await busy.query('commit');
      expect((await late).status).toBe(401);
    } finally {
      busy.release();
    }
  });

  it('rotates itself without blocking a revocation of the application', async () => {
    const { application, client } = await letIn();
    const { id, token } = await makeToken(client);
    const { pool } = app().hub.services;
    await app().settle();
    const busy = await pool.connect();
    try {
      await busy.query('begin');
      await busy.query('update credential_origins set ended_at = now() where application_id = $1', [application.id]);
      const late = clientWith(token).post('/personal_access_tokens/self/rotate');
      await untilBlocked(app());
      // The request waits for the authorization, and holds no lock that the revocation needs.
      await busy.query('select from personal_access_tokens where id = $1 for update nowait', [id]);
      await busy.query('commit');
      expect((await late).status).toBe(401);
    } finally {
      await busy.query('rollback');
      busy.release();
    }
  });

  it('has no application if a user created it, even with their own token', async () => {
    const { body } = await app()
      .as(ada)
      .post(tokensPath(), { name: 'by hand', scopes: ['api'] });
    expect(body).toMatchObject({ created_by_id: ada.id, oauth_application: null });
    const own = (await clientWith(body.token).post('/personal_access_tokens/self/rotate')).body;
    expect(own).toMatchObject({ created_by_id: account.id, oauth_application: null });
  });

  it('names no application for a password grant', async () => {
    const { body } = await post(app(), '/oauth/token', {
      grant_type: 'password',
      username: app().root.username,
      password: PASSWORD,
    });
    const made = await makeToken(clientWith(body.access_token));
    expect(made).toMatchObject({
      oauth_application: { id: null, name: null, authorized_by_id: app().root.id },
    });
    await post(app(), '/oauth/revoke', { token: body.access_token });
    expect(await apiStatus(app(), made.token)).toBe(401);
  });
});

describe('an application that an application created', () => {
  it('is removed with the grant, with its own tokens and the tokens that they created', async () => {
    const { application, client } = await letIn(app().root);
    const made = (await client.post('/applications', { name: 'Offspring', redirect_uri: REDIRECT_URI, scopes: 'api' }))
      .body;
    expect(made).toMatchObject({
      created_by_id: app().root.id,
      oauth_application: { id: application.id, name: 'Intruder', authorized_by_id: app().root.id },
    });
    const offspring: CreatedApplication = { ...(await stored(made.id)), secret: made.secret };
    const { access_token } = await tokensFor(app(), ada, offspring, { scope: 'api' });
    const { token } = await makeToken(clientWith(access_token));
    await shutOut(application, app().root);
    expect((await root().get('/applications?per_page=100')).body).not.toContainEqual(
      expect.objectContaining({ id: made.id }),
    );
    expect(await apiStatus(app(), access_token)).toBe(401);
    expect(await apiStatus(app(), token)).toBe(401);
  });

  it('cannot be trusted, and other applications are neither changed nor given a new secret', async () => {
    const { client } = await letIn(app().root);
    const victim = await makeApplication(app(), app().root, {
      name: 'Victim',
      redirect_uris: ['https://v.example/cb'],
    });
    const id = `gid://gitlab/OauthApplication/${victim.id}`;
    const update = `mutation ($input: OauthApplicationUpdateInput!) { oauthApplicationUpdate(input: $input) { errors } }`;
    const input = { id, redirectUris: ['https://intruder.example/cb'], confidential: false };
    expect(await client.graphql(update, { input })).toMatchObject({ errors: [{ extensions: { code: 'FORBIDDEN' } }] });
    expect((await client.post(`/applications/${victim.id}/renew-secret`)).status).toBe(403);
    const create = `mutation ($input: OauthApplicationCreateInput!) { oauthApplicationCreate(input: $input) { errors } }`;
    const trusted = { name: 'T', redirectUris: [], scopes: ['api'], trusted: true, forHub: true };
    expect(await client.graphql(create, { input: trusted })).toMatchObject({
      errors: [{ extensions: { code: 'FORBIDDEN' } }],
    });
    expect((await stored(victim.id)).redirect_uris).toEqual(['https://v.example/cb']);
    // It may renew the secret of its own application.
    const own = (await client.post('/applications', { name: 'Own', redirect_uri: '', scopes: 'api' })).body;
    expect((await client.post(`/applications/${own.id}/renew-secret`)).status).toBe(201);
  });
});

const stored = async (id: number) => {
  const row = await app()
    .hub.services.db.selectFrom('oauth_applications')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  return { ...row, origin: null };
};

describe('runners and hooks that an application created', () => {
  it('show their application, and end with the grant', async () => {
    const { application, client } = await letIn();
    const by = { id: application.id, name: 'Intruder', authorized_by_id: ada.id };
    const runner = (await client.post('/user/runners', { runner_type: 'group_type', group_id: group.id })).body;
    const hook = (await client.post(`/groups/${group.id}/hooks`, { url: 'https://intruder.example/hook' })).body;
    expect(hook).toMatchObject({ created_by_id: ada.id, oauth_application: by, alert_status: 'executable' });
    const own = (await app().as(ada).post(`/groups/${group.id}/hooks`, { url: 'https://ada.example/hook' })).body;
    expect(own).toMatchObject({ created_by_id: ada.id, oauth_application: null });
    // A hook of the user counts as the application's own once the application changes its URL.
    const led = (await app().as(ada).post(`/groups/${group.id}/hooks`, { url: 'https://led.example/hook' })).body;
    await client.put(`/groups/${group.id}/hooks/${led.id}`, { url: 'https://intruder.example/led' });
    const query = `query ($id: CiRunnerID!) {
      runner(id: $id) { tokenExpiresAt createdBy { username } origin { applicationName } } }`;
    const read = async () =>
      (
        await app()
          .as(ada)
          .graphql(query, { id: `gid://gitlab/Ci::Runner/${runner.id}` })
      ).data.runner;
    expect(await read()).toEqual({
      tokenExpiresAt: null,
      createdBy: { username: ada.username },
      origin: { applicationName: 'Intruder' },
    });

    await shutOut(application);
    await app().settle();
    expect(Date.parse((await read()).tokenExpiresAt)).toBeLessThanOrEqual(Date.now());
    const hooks: { id: number; alert_status: string }[] = (await app().as(ada).get(`/groups/${group.id}/hooks`)).body;
    expect(new Map(hooks.map(({ id, alert_status }) => [id, alert_status]))).toEqual(
      new Map([
        [hook.id, 'disabled'],
        [own.id, 'executable'],
        [led.id, 'disabled'],
      ]),
    );
    expect(await payloadsOf('runner.token_ended', runner.id)).toHaveLength(1);
    expect(await payloadsOf('webhook.alert_status_changed', hook.id)).toMatchObject([{ current: 'disabled' }]);
  });
});

describe('tokens of other users', () => {
  const scopes = ['api'];
  const expires_at = new Date(Date.now() + 86_400_000 * 20).toISOString().slice(0, 10);

  it('are created by the application of an administrator only with the scope sudo', async () => {
    const victim = await app().make.user();
    const { id } = (await root().post(`/users/${victim.id}/personal_access_tokens`, { name: 'own', scopes })).body;
    const ways = (client: Client) =>
      Promise.all([
        client.post(`/users/${victim.id}/impersonation_tokens`, { name: 'x', scopes, expires_at }),
        client.post(`/users/${victim.id}/personal_access_tokens`, { name: 'x', scopes }),
        client.post(`/personal_access_tokens/${id}/rotate`),
      ]);
    const { client } = await letIn(app().root, 'api');
    for (const { status, body } of await ways(client)) {
      expect({ status, body }).toMatchObject({ status: 403, body: { error: 'insufficient_scope', scope: 'sudo' } });
    }
    expect((await root().get(`/users/${victim.id}/impersonation_tokens`)).body).toEqual([]);

    const letInAs = await letIn(app().root, 'api sudo');
    const made = await ways(letInAs.client);
    for (const { status, body } of made) {
      expect(status).toBe(201);
      expect(body.oauth_application).toMatchObject({ id: letInAs.application.id, authorized_by_id: app().root.id });
      expect(await apiStatus(app(), body.token)).toBe(200);
    }
    await shutOut(letInAs.application, app().root);
    for (const { body } of made) expect(await apiStatus(app(), body.token)).toBe(401);
  });

  it('are still created by administrators with their own tokens', async () => {
    const victim = await app().make.user();
    const path = `/users/${victim.id}/impersonation_tokens`;
    expect((await root().post(path, { name: 'x', scopes, expires_at })).status).toBe(201);
  });

  it('require consent for a trusted application too', async () => {
    const application = await makeApplication(app(), app().root, { scopes: ['api', 'sudo'] });
    await app().hub.services.pool.query('update oauth_applications set trusted = true, owner_id = null where id = $1', [
      application.id,
    ]);
    const request = (scope: string) =>
      ask(app(), app().root, {
        client_id: application.uid,
        redirect_uri: REDIRECT_URI,
        response_type: 'code',
        scope,
      });
    expect(await request('api')).toMatchObject({ ok: { consentNeeded: false } });
    expect(await request('api sudo')).toMatchObject({ ok: { consentNeeded: true } });
  });
});

describe('the sign-in data of a user', () => {
  it('is not changed by an application without the password of the user who authorized it', async () => {
    const { client } = await letIn(app().root);
    const person = await app().make.user();
    const address = { email: 'extra@example.com' };
    const { id: emailId } = (await root().post(`/users/${person.id}/emails`, { ...address, skip_confirmation: true }))
      .body;
    await root().put(`/users/${person.id}`, { provider: 'saml', extern_uid: 'person' });
    const newcomer = { name: 'N', username: 'newcomer', email: 'newcomer@example.com' };
    const attempts = (client: Client, proof: Record<string, unknown>) => [
      () => client.post('/user/emails', { email: 'intruder@example.com', ...proof }),
      () => client.post(`/users/${person.id}/emails`, { email: 'in@example.com', skip_confirmation: true, ...proof }),
      () => client.put(`/users/${person.id}`, { email: address.email, ...proof }),
      () => client.put(`/users/${person.id}`, { password: 'chosen-by-the-intruder', ...proof }),
      () => client.put(`/users/${person.id}`, { admin: true, ...proof }),
      () => client.put(`/users/${person.id}`, { provider: 'saml', extern_uid: 'intruder', ...proof }),
      () => client.delete(`/users/${person.id}/identities/saml`, proof),
      () => client.patch(`/users/${person.id}/disable_two_factor`, proof),
      () => client.delete(`/users/${person.id}/emails/${emailId}`, proof),
      () => client.post('/users', { ...newcomer, password: 'chosen-by-the-intruder', ...proof }),
      () => client.post('/users', { ...newcomer, reset_password: true, admin: true, ...proof }),
      () => client.delete(`/users/${person.id}`, proof),
    ];
    const before = await snapshot(person);
    for (const attempt of [...attempts(client, {}), ...attempts(client, { current_password: 'wrong' }).slice(0, 2)]) {
      expect((await attempt()).status).toBe(403);
    }
    expect(await snapshot(person)).toEqual(before);
    expect((await root().get('/users?username=newcomer')).body).toEqual([]);

    // A token that the application created cannot change it either.
    const service = (await root().post('/service_accounts')).body;
    const made = (await client.post(`/users/${service.id}/personal_access_tokens`, { name: 'x', scopes: ['api'] }))
      .body;
    await root().put(`/users/${service.id}`, { admin: true });
    for (const attempt of attempts(clientWith(made.token), {})) expect((await attempt()).status).toBe(403);
    expect(await snapshot(person)).toEqual(before);

    // With the password, the application can do everything that the user can.
    // Nobody has a second factor here, and the address is primary by then.
    const statuses: number[] = [];
    for (const attempt of attempts(client, { current_password: PASSWORD })) statuses.push((await attempt()).status);
    expect(statuses).toEqual([201, 201, 200, 200, 200, 200, 204, 403, 404, 201, 409, 204]);
  });

  it('can be changed by an application with that password', async () => {
    const { client } = await letIn(app().root);
    const person = await app().make.user({ two_factor_enabled: true });
    const proof = { current_password: PASSWORD };
    for (const path of ['/user/emails', `/users/${person.id}/emails`]) {
      const { id } = (await root().post(path, { email: `proven-${path.length}@example.com` })).body;
      expect((await client.delete(`${path}/${id}`)).status).toBe(403);
      expect((await client.delete(`${path}/${id}`, proof)).status).toBe(204);
      expect((await root().get(path)).body.map((each: { id: number }) => each.id)).not.toContain(id);
    }
    const disable = `/users/${person.id}/disable_two_factor`;
    expect((await client.patch(disable, {})).status).toBe(403);
    expect((await client.patch(disable, proof)).status).toBe(204);
    expect((await root().get(`/users/${person.id}`)).body).toMatchObject({ two_factor_enabled: false });
  });

  it('is not changed over GraphQL either', async () => {
    const { client } = await letIn(app().root);
    const person = await app().make.user();
    const id = `gid://gitlab/User/${person.id}`;
    const before = await snapshot(person);
    for (const [name, input] of [
      ['userEmailAdd', { email: 'intruder@example.org' }],
      ['userUpdate', { id, password: 'chosen-by-the-intruder' }],
      ['userDelete', { id }],
      ['userTwoFactorDisable', { id }],
      ['userIdentityDelete', { userId: id, provider: 'saml' }],
      ['userCreate', { name: 'N', username: 'newcomer', email: 'n@example.org', password: 'chosen-by-the-intruder' }],
    ] as const) {
      const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
      const answer = await client.graphql(`mutation ($input: ${type}!) { ${name}(input: $input) { errors } }`, {
        input,
      });
      expect({ name, answer }).toMatchObject({ name, answer: { errors: [{ extensions: { code: 'FORBIDDEN' } }] } });
    }
    expect(await snapshot(person)).toEqual(before);

    // With the password, the application can do all of that.
    await app()
      .hub.services.db.updateTable('users')
      .set({ two_factor_enabled: true })
      .where('id', '=', person.id)
      .execute();
    await root().put(`/users/${person.id}`, { provider: 'saml', extern_uid: 'person-over-graphql' });
    const proof = { currentPassword: PASSWORD };
    const { email } = await mutate(
      client,
      'userEmailAdd',
      { userId: id, email: 'added@example.org', skipConfirmation: true, ...proof },
      'email { id }',
    );
    const emailsOf = async () => (await root().get(`/users/${person.id}/emails`)).body;
    expect(await emailsOf()).toMatchObject([{ email: 'added@example.org' }]);
    await mutate(client, 'userEmailRemove', { id: email.id, ...proof });
    expect(await emailsOf()).toEqual([]);
    await mutate(client, 'userTwoFactorDisable', { id, ...proof });
    await mutate(client, 'userIdentityDelete', { userId: id, provider: 'saml', ...proof });
    await mutate(client, 'userUpdate', { id, admin: true, ...proof });
    expect((await root().get(`/users/${person.id}`)).body).toMatchObject({
      is_admin: true,
      identities: [],
      two_factor_enabled: false,
    });
    await mutate(client, 'userDelete', { id, hardDelete: true, ...proof });
    await app().settle();
    expect((await root().get(`/users/${person.id}`)).status).toBe(404);
    const newcomer = { name: 'N', username: 'let-in', email: 'let-in@example.org', password: 'chosen-with-consent' };
    await mutate(client, 'userCreate', { ...newcomer, ...proof });
    expect((await root().get('/users?username=let-in')).body).toHaveLength(1);
  });

  it('may be changed by users, while applications may change only other data', async () => {
    const { client } = await letIn(app().root);
    expect((await app().as(ada).post('/user/emails', { email: 'ada-too@example.com' })).status).toBe(201);
    const person = await app().make.user();
    expect((await client.put(`/users/${person.id}`, { name: 'Another name' })).status).toBe(200);
    const invited = { name: 'I', username: 'invited', email: 'invited@example.com', reset_password: true };
    expect((await client.post('/users', invited)).status).toBe(201);
  });

  const snapshot = async ({ id }: TestUser) => {
    const { rows } = await app().hub.services.pool.query(
      `select email, unconfirmed_email, password_hash, is_admin,
        (select jsonb_agg(e.email order by e.id) from emails e where e.user_id = u.id) as emails,
        (select jsonb_agg(i.extern_uid) from identities i where i.user_id = u.id) as identities
      from users u where id = $1`,
      [id],
    );
    return rows;
  };
});

it('shows on the pages which records end with the revocation of an application', async () => {
  const { application, client } = await letIn(app().root);
  const { id } = (await client.post('/applications', { name: 'Pages', redirect_uri: '', scopes: 'api' })).body;
  const visitor = new Visitor(app().url);
  await visitor.signIn(app().root.username);
  expect((await visitor.get('/-/user_settings/applications')).text).toMatch(/Intruder .*? 1, revoked with it/);
  expect((await visitor.get(`/admin/applications/${id}`)).text).toContain('Created by the application Intruder');
  await visitor.post(`/-/user_settings/applications/${application.id}/revoke`);
  expect((await visitor.get(`/admin/applications/${id}`)).status).toBe(404);

  const proxy = await letIn(app().root, 'api');
  await proxy.client.post(`/users/${app().root.id}/personal_access_tokens`, { name: 'proxy', scopes: ['k8s_proxy'] });
  expect((await visitor.get('/-/user_settings/personal_access_tokens')).text).toMatch(
    /proxy\s*Created by the application Intruder/,
  );
});
