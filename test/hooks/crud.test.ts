import { beforeAll, describe, expect, it } from 'vitest';
import { DEVELOPER, MAINTAINER, OWNER } from '#domains/access/model.ts';
import { TRIGGERS } from '#domains/hooks/triggers.ts';
import type { TestUser } from '../support/app.ts';
import { useApp } from '../support/app.ts';
import type { TestGroup } from '../support/factories.ts';

const app = useApp();
let owner: TestUser;
let group: TestGroup;
const URL_1 = 'https://93.184.216.34/hook';
beforeAll(async () => {
  owner = await app().make.user();
  group = await app().make.group({}, owner);
});
const path = (rest = '') => `/groups/${group.id}/hooks${rest}`;
const make = async (attributes: Record<string, unknown> = {}) => {
  const { status, body } = await app()
    .as(owner)
    .post(path(), { url: URL_1, ...attributes });
  expect([status, body]).toEqual([201, expect.anything()]);
  return body;
};
const stored = (id: number) =>
  app().hub.services.db.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow();

describe('a group hook', () => {
  it('is created with the fields of the specification, and shows no secrets', async () => {
    const made = await make({
      name: 'CI',
      description: 'Tells CI',
      token: 'the-shared-secret',
      issues_events: 'true',
      push_events: false,
      custom_headers: [{ key: 'X-Key', value: 'header-secret' }],
      url_variables: [{ key: 'who', value: 'variable-secret' }],
      url: `${URL_1}/{who}`,
    });
    const { body } = await app()
      .as(owner)
      .get(path(`/${made.id}`));
    expect(body).toEqual({
      id: made.id,
      url: `${URL_1}/{who}`,
      name: 'CI',
      description: 'Tells CI',
      group_id: group.id,
      ...Object.fromEntries(TRIGGERS.map(({ name }) => [name, name === 'issues_events'])),
      push_events_branch_filter: '',
      branch_filter_strategy: 'wildcard',
      enable_ssl_verification: true,
      alert_status: 'executable',
      disabled_until: null,
      url_variables: [{ key: 'who' }],
      custom_headers: [{ key: 'X-Key' }],
      custom_webhook_template: null,
      created_at: made.created_at,
      created_by_id: owner.id,
      oauth_application: null,
    });
    expect(made.signing_token).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    const rows = JSON.stringify([
      await stored(made.id),
      await app().hub.services.db.selectFrom('webhook_values').selectAll().execute(),
      await app().hub.services.db.selectFrom('events').selectAll().where('kind', 'like', 'webhook.%').execute(),
      (await app().as(owner).get(path())).body,
    ]);
    for (const secret of ['the-shared-secret', 'header-secret', 'variable-secret', made.signing_token])
      expect(rows).not.toContain(secret);
    const list = await app().as(owner).get(path());
    expect(list.headers.get('x-total')).toBe('1');
  });

  it('receives pushes by default', async () => {
    expect((await make()).push_events).toBe(true);
  });

  it('hides the credentials in its URL, and keeps them if the masked URL is sent back', async () => {
    const made = await make({ url: 'https://ann:pass-word@93.184.216.34/', token: 'abcdef' });
    expect(made.url).toBe('https://[MASKED]@93.184.216.34/');
    const before = await stored(made.id);
    await app()
      .as(owner)
      .put(path(`/${made.id}`), { url: made.url, name: 'New' });
    const after = await stored(made.id);
    expect(after).toMatchObject({ name: 'New', url: made.url });
    expect(after.sealed_url).not.toBeNull();
    expect(after.token).toEqual(before.token);
  });

  it('loses its secrets when its URL changes, unless they are sent along', async () => {
    const secrets = {
      token: 'the-shared-secret',
      custom_headers: [{ key: 'X-Key', value: 'v' }],
      url_variables: [{ key: 'who', value: 'v' }],
    };
    const made = await make(secrets);
    const same = await app()
      .as(owner)
      .put(path(`/${made.id}`), { url: URL_1, issues_events: true });
    expect(same.body).toMatchObject({ custom_headers: [{ key: 'X-Key' }], url_variables: [{ key: 'who' }] });
    expect((await stored(made.id)).token).not.toBeNull();
    const moved = await app()
      .as(owner)
      .put(path(`/${made.id}`), { url: 'https://93.184.216.35/' });
    expect(moved.body).toMatchObject({ custom_headers: [], url_variables: [], issues_events: true });
    expect(await stored(made.id)).toMatchObject({ token: null, signing_token: null });
    const again = await app()
      .as(owner)
      .put(path(`/${made.id}`), { url: URL_1, ...secrets });
    expect(again.body).toMatchObject({ custom_headers: [{ key: 'X-Key' }] });
    expect((await stored(made.id)).token).not.toBeNull();
  });

  it('loses its secrets when a URL variable leads to another server', async () => {
    const made = await make({
      url: 'https://{host}/{path}',
      token: 'the-shared-secret',
      custom_headers: [{ key: 'X-Key', value: 'v' }],
      url_variables: [
        { key: 'host', value: '93.184.216.34' },
        { key: 'path', value: 'hidden' },
      ],
    });
    const as = app().as(owner);
    expect((await as.put(path(`/${made.id}/url_variables/path`), { value: 'other' })).status).toBe(204);
    expect((await stored(made.id)).token).not.toBeNull();
    expect((await as.put(path(`/${made.id}/url_variables/host`), { value: '127.0.0.1' })).status).toBe(422);
    expect((await stored(made.id)).token).not.toBeNull();
    expect((await as.put(path(`/${made.id}/url_variables/host`), { value: '93.184.216.35' })).status).toBe(204);
    expect(await stored(made.id)).toMatchObject({ token: null, signing_token: null });
    expect((await as.get(path(`/${made.id}`))).body).toMatchObject({
      custom_headers: [],
      url_variables: [{ key: 'host' }],
    });
  });

  it('accepts headers and variables one by one', async () => {
    const made = await make();
    const as = app().as(owner);
    expect((await as.put(path(`/${made.id}/custom_headers/X-A`), { value: '1' })).status).toBe(204);
    expect((await as.put(path(`/${made.id}/custom_headers/x-a`), { value: '2' })).status).toBe(204);
    expect((await as.put(path(`/${made.id}/url_variables/a.b`), { value: '1' })).status).toBe(204);
    expect((await as.get(path(`/${made.id}`))).body).toMatchObject({
      custom_headers: [{ key: 'x-a' }],
      url_variables: [{ key: 'a.b' }],
    });
    expect((await as.put(path(`/${made.id}/custom_headers/X-B`), {})).status).toBe(400);
    expect((await as.put(path(`/${made.id}/custom_headers/Host`), { value: 'x' })).status).toBe(422);
    expect((await as.delete(path(`/${made.id}/custom_headers/X-A`))).status).toBe(204);
    expect((await as.delete(path(`/${made.id}/url_variables/a.b`))).status).toBe(204);
    expect((await as.delete(path(`/${made.id}/custom_headers/X-A`))).status).toBe(404);
  });

  it('accepts the flag of its group that the API has among its attributes', async () => {
    const made = await make();
    const flag = async () => {
      const row = await app()
        .hub.services.db.selectFrom('namespaces')
        .select('service_access_tokens_expiration_enforced as enforced')
        .where('id', '=', group.id)
        .executeTakeFirst();
      return row?.enforced;
    };
    const before = await flag();
    const set = (enforced: boolean) =>
      app()
        .as(owner)
        .put(path(`/${made.id}`), { url: URL_1, service_access_tokens_expiration_enforced: enforced });
    for (const enforced of [!before, before ?? true]) {
      const { status, body } = await set(enforced);
      expect([status, body.id]).toEqual([200, made.id]);
      expect(body).not.toHaveProperty('service_access_tokens_expiration_enforced');
      expect(await flag()).toBe(enforced);
    }
    await app()
      .as(owner)
      .put(path(`/${made.id}`), { url: URL_1 });
    expect(await flag()).toBe(before);
  });

  it('is removed, and removing it again is not an error', async () => {
    const made = await make();
    expect(
      (
        await app()
          .as(owner)
          .delete(path(`/${made.id}`))
      ).status,
    ).toBe(204);
    expect(
      (
        await app()
          .as(owner)
          .delete(path(`/${made.id}`))
      ).status,
    ).toBe(204);
    expect(
      (
        await app()
          .as(owner)
          .get(path(`/${made.id}`))
      ).status,
    ).toBe(404);
  });

  it.each([
    ['loopback', 'http://127.0.0.1:9000/'],
    ['a decimal address', 'http://2130706433/'],
    ['a short address', 'http://127.1/'],
    ['an octal address', 'http://0177.0.0.1/'],
    ['a mapped address', 'http://[::ffff:127.0.0.1]/'],
    ['localhost', 'http://localhost./'],
    ['metadata', 'http://169.254.169.254/latest'],
    ['a private address behind credentials', 'http://example.com@10.0.0.1/'],
    ['another scheme', 'file:///etc/passwd'],
    ['a port of something else', 'https://93.184.216.34:22/'],
    ['a line break', 'https://93.184.216.34/\r\nX: y'],
    ['no URL', 'hook'],
    ['credentials behind backslashes', 'https:\\\\ann:secret@93.184.216.34/'],
  ])('refuses %s with 422 on url', async (_, url) => {
    const { status, body } = await app().as(owner).post(path(), { url });
    expect([status, Object.keys(body.message ?? body)]).toEqual([422, ['url']]);
  });

  it.each([
    ['an empty url', { url: ' ' }, 422],
    ['no url', {}, 400],
    ['a header that breaks the message', { custom_headers: [{ key: 'X-A', value: 'a\r\nB: c' }] }, 422],
    ['a header of HTTP itself', { custom_headers: [{ key: 'Transfer-Encoding', value: 'chunked' }] }, 422],
    ['a length of its own', { custom_headers: [{ key: 'content-length', value: '1' }] }, 422],
    [
      'a key twice',
      {
        custom_headers: [
          { key: 'A', value: '1' },
          { key: 'a', value: '2' },
        ],
      },
      422,
    ],
    ['21 headers', { custom_headers: Array.from({ length: 21 }, (_, n) => ({ key: `A${n}`, value: '1' })) }, 422],
    ['a pattern that RE2 does not know', { branch_filter_strategy: 'regex', push_events_branch_filter: '(a)\\1' }, 422],
    ['an unknown strategy', { branch_filter_strategy: 'glob' }, 400],
    ['a toggle that is none', { push_events: 'maybe' }, 400],
    ['a signing token of another form', { signing_token: 'secret' }, 422],
    ['a long template', { custom_webhook_template: 'x'.repeat(4_097) }, 422],
  ])('refuses %s', async (_, attributes, status) => {
    const count = async () => (await app().as(owner).get(path('?per_page=1'))).headers.get('x-total');
    const before = await count();
    const answer = await app()
      .as(owner)
      .post(path(), 'url' in attributes || status === 400 ? attributes : { url: URL_1, ...attributes });
    if (status === 400 && !('url' in attributes) && Object.keys(attributes).length > 0)
      expect(
        (
          await app()
            .as(owner)
            .post(path(), { url: URL_1, ...attributes })
        ).status,
      ).toBe(400);
    expect(answer.status).toBe(status);
    expect(await count()).toBe(before);
  });

  it('is available only to Owners of its group', async () => {
    const made = await make();
    const maintainer = await app().make.user();
    await app().make.groupMember(group, maintainer, MAINTAINER);
    const developer = await app().make.user();
    await app().make.groupMember(group, developer, DEVELOPER);
    const outsider = await app().make.user();
    const requests = [
      ['GET', path(), undefined],
      ['GET', path(`/${made.id}`), undefined],
      ['POST', path(), { url: URL_1 }],
      ['PUT', path(`/${made.id}`), { url: 'https://93.184.216.99/' }],
      ['DELETE', path(`/${made.id}`), undefined],
      ['PUT', path(`/${made.id}/custom_headers/a`), { value: 'b' }],
      ['POST', path(`/${made.id}/signing_token/rotate`), undefined],
      ['GET', path(`/${made.id}/events`), undefined],
      ['POST', path(`/${made.id}/events/1/resend`), undefined],
    ] as const;
    for (const [method, where, body] of requests) {
      const by = async (client: {
        request: typeof app extends never ? never : ReturnType<ReturnType<typeof app>['as']>['request'];
      }) => (await client.request(method, where, body)).status;
      expect([where, await by(app().anonymous)]).toEqual([where, 401]);
      expect([where, await by(app().as(outsider))]).toEqual([where, 404]);
      expect([where, await by(app().as(developer))]).toEqual([where, 403]);
      expect([where, await by(app().as(maintainer))]).toEqual([where, 403]);
      expect([where, method === 'GET' ? await by(app().as(owner, ['read_user'])) : 403]).toEqual([where, 403]);
    }
    expect(
      (
        await app()
          .as(owner)
          .get(path(`/${made.id}`))
      ).body.url,
    ).toBe(URL_1);
    const other = await app().make.group({}, owner);
    expect((await app().as(owner).get(`/groups/${other.id}/hooks/${made.id}`)).status).toBe(404);
    expect((await app().as(owner).put(`/groups/${other.id}/hooks/${made.id}`, { url: URL_1 })).status).toBe(404);
    expect((await app().as(owner).delete(`/groups/${other.id}/hooks/${made.id}`)).status).toBe(204);
    expect(
      (
        await app()
          .as(owner)
          .get(path(`/${made.id}`))
      ).status,
    ).toBe(200);
    expect(OWNER).toBe(50);
  });

  it('is limited to fifty per group', async () => {
    const full = await app().make.group({}, owner);
    await app()
      .hub.services.db.insertInto('webhooks')
      .values(Array.from({ length: 50 }, () => ({ namespace_id: full.id, url: URL_1 })))
      .execute();
    const { status, body } = await app().as(owner).post(`/groups/${full.id}/hooks`, { url: URL_1 });
    expect([status, body.message.base]).toEqual([422, ['Maximum number of group hooks (50) exceeded']]);
  });
});

describe('a group hook over GraphQL', () => {
  it('is created, read, changed and removed by the same rules', async () => {
    const as = app().as(owner);
    const created = await as.graphql(
      `mutation ($input: GroupWebhookCreateInput!) { groupWebhookCreate(input: $input) {
        errors signingToken webhook { id url events hasToken hasSigningToken customHeaders { key } alertStatus branchFilterStrategy } } }`,
      {
        input: {
          groupPath: group.full_path,
          url: URL_1,
          events: ['ISSUES_EVENTS', 'PUSH_EVENTS'],
          token: 'shared-secret',
          customHeaders: [{ key: 'X-A', value: 'b' }],
        },
      },
    );
    const { webhook, signingToken, errors } = created.data.groupWebhookCreate;
    expect(errors).toEqual([]);
    expect(signingToken).toMatch(/^whsec_/);
    expect(webhook).toMatchObject({
      url: URL_1,
      events: ['PUSH_EVENTS', 'ISSUES_EVENTS'],
      hasToken: true,
      hasSigningToken: true,
      customHeaders: [{ key: 'X-A' }],
      alertStatus: 'EXECUTABLE',
      branchFilterStrategy: 'WILDCARD',
    });
    const query = `query ($path: ID!) { group(fullPath: $path) { webhooks(first: 100) { count nodes { id deliveries { count } outbox { count } } } } }`;
    const read = await as.graphql(query, { path: group.full_path });
    expect(read.data.group.webhooks.nodes).toContainEqual({
      id: webhook.id,
      deliveries: { count: 0 },
      outbox: { count: 0 },
    });
    const outsider = await app().make.user();
    await app().make.groupMember(group, outsider, MAINTAINER);
    expect((await app().as(outsider).graphql(query, { path: group.full_path })).data.group.webhooks).toBeNull();
    const update = `mutation ($input: GroupWebhookUpdateInput!) { groupWebhookUpdate(input: $input) { errors webhook { url hasToken } } }`;
    const refused = await as.graphql(update, { input: { id: webhook.id, url: 'http://127.0.0.1/' } });
    expect(refused.data.groupWebhookUpdate).toMatchObject({ webhook: null, errors: [expect.stringContaining('Url')] });
    const denied = await app()
      .as(outsider)
      .graphql(update, { input: { id: webhook.id, name: 'Mine' } });
    expect(denied.errors?.[0]?.message).toMatch(/does not exist or you don't have permission/);
    const changed = await as.graphql(update, { input: { id: webhook.id, url: 'https://93.184.216.35/' } });
    expect(changed.data.groupWebhookUpdate).toMatchObject({
      errors: [],
      webhook: { url: 'https://93.184.216.35/', hasToken: false },
    });
    const destroyed = await as.graphql(
      `mutation ($id: WebHookID!) { groupWebhookDestroy(input: { id: $id }) { errors } }`,
      { id: webhook.id },
    );
    expect(destroyed.data.groupWebhookDestroy.errors).toEqual([]);
  });
});
