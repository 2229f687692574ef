import { describe, expect, it } from 'vitest';
import { sweepSamlRequests } from '#domains/saml/jobs.ts';
import { Visitor } from '../pages/visitor.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { computedMs } from '../support/computed-ms.ts';
import {
  type AssertionOptions,
  CERTIFICATE,
  encoded,
  plainAssertion,
  readRequest,
  responseAround,
  type SentRequest,
  signedAssertion,
  WRONG_KEY,
} from './provider.ts';

const app = useApp({
  env: {
    MILLRACE_SAML_ENTRY_POINT: 'https://provider.example/sso',
    MILLRACE_SAML_CERTIFICATE: CERTIFICATE,
    MILLRACE_SAML_CREATE_USERS: 'true',
    MILLRACE_SAML_LABEL: 'Example ID',
  },
});
const db = () => app().hub.services.db;

let count = 0;
const name = (): string => `saml${++count}`;

const begin = async (person: Visitor, path = '/users/auth/saml'): Promise<SentRequest> => {
  const { status, location } = await person.get(path);
  expect(status).toBe(303);
  return readRequest(location ?? '');
};

/** Posts a response as browsers do from another site: without cookies. */
const deliver = (xml: string) =>
  new Visitor(app().url).post('/users/auth/saml/callback', { SAMLResponse: encoded(xml) });

/** Runs a complete, honest sign-in. */
const signIn = async (options: AssertionOptions, person = new Visitor(app().url)): Promise<Visitor> => {
  const request = await begin(person);
  const { status, location } = await deliver(responseAround(request, signedAssertion(request, options)));
  expect(status).toBe(303);
  await person.get(location ?? '');
  return person;
};

const link = (user: TestUser, extern_uid: string) =>
  db().insertInto('identities').values({ user_id: user.id, provider: 'saml', extern_uid }).execute();

const sessionsOf = async (user: TestUser): Promise<number> =>
  (await db().selectFrom('sessions').select('id').where('user_id', '=', user.id).execute()).length;

const linkedUser = async (): Promise<{ readonly user: TestUser; readonly nameId: string }> => {
  const user = await app().make.user();
  const nameId = `${name()}@provider.example`;
  await link(user, nameId);
  return { user, nameId };
};

describe('signing in by SAML', () => {
  it('redirects to the provider, and back to the requested page', async () => {
    const { user, nameId } = await linkedUser();
    const person = new Visitor(app().url);
    expect((await person.get('/users/sign_in?return_to=%2F-%2Fuser_settings%2Femails')).html).toContain(
      'href="/users/auth/saml?return_to&#61;%2F-%2Fuser_settings%2Femails">Sign in with Example ID<',
    );
    const request = await begin(person, '/users/auth/saml?return_to=%2F-%2Fuser_settings%2Femails');
    expect(request).toMatchObject({
      callback: `${app().url}/users/auth/saml/callback`,
      issuer: `${app().url}/users/auth/saml/metadata`,
      destination: 'https://provider.example/sso',
    });
    const { location } = await deliver(responseAround(request, signedAssertion(request, { nameId })));
    expect(await person.get(location ?? '')).toMatchObject({ status: 303, location: '/-/user_settings/emails' });
    expect((await person.get('/')).text).toContain(`(@${user.username}, `);
  });

  it('never redirects to another host', async () => {
    const { nameId } = await linkedUser();
    const person = new Visitor(app().url);
    const request = await begin(person, '/users/auth/saml?return_to=%2F%2Fevil.example');
    const { location } = await deliver(responseAround(request, signedAssertion(request, { nameId })));
    expect(await person.get(location ?? '')).toMatchObject({ status: 303, location: '/' });
  });

  it('serves metadata for the provider', async () => {
    const { html, headers } = await new Visitor(app().url).get('/users/auth/saml/metadata');
    expect(headers.get('content-type')).toContain('samlmetadata+xml');
    expect(html).toContain(`entityID="${app().url}/users/auth/saml/metadata"`);
    expect(html).toContain(`Location="${app().url}/users/auth/saml/callback"`);
    expect(html).toContain('WantAssertionsSigned="true"');
  });

  it('creates an account at the first sign-in, with a free username', async () => {
    const taken = await app().make.user({ username: `jane-${name()}-` });
    const nameId = name();
    const attributes = { email: `${nameId}@corp.example`, name: 'Jane Doe', username: taken.username };
    const person = await signIn({ nameId, attributes });
    expect((await person.get('/')).text).toContain(`(@${taken.username}1, `);
    const { body } = await app().as(app().root).get(`/users?username=${taken.username}1`);
    const { body: user } = await app().as(app().root).get(`/users/${body[0].id}`);
    expect(user).toMatchObject({
      name: 'Jane Doe',
      email: `${nameId}@corp.example`,
      identities: [{ provider: 'saml', extern_uid: nameId }],
    });
    expect(user.confirmed_at).not.toBeNull();
    // Later sign-ins find the account by its id at the provider, even with another name and address.
    const again = await signIn({ nameId, attributes: { email: 'other@corp.example', username: 'other' } });
    expect((await again.get('/')).text).toContain(`(@${taken.username}1, `);
  });

  it('does not link an account by email address', async () => {
    const user = await app().make.user();
    const nameId = name();
    const attributes = { email: `${user.username}@example.com`, username: user.username };
    const person = await signIn({ nameId, attributes });
    expect(person.page.status).toBe(403);
    expect(person.page.text).toContain('An account with your address already exists');
    expect(await sessionsOf(user)).toBe(0);
    expect(await db().selectFrom('identities').select('id').where('extern_uid', '=', nameId).execute()).toEqual([]);
  });

  it.each([
    ['blocked', 'Your account has been blocked'],
    ['banned', 'Your account has been banned'],
  ] as const)('refuses a user who is %s, and grants no role', async (state, reason) => {
    const { user, nameId } = await linkedUser();
    const group = await app().make.group();
    const saml_group_name = name();
    await app().as(app().root).post(`/groups/${group.id}/saml_group_links`, { saml_group_name, access_level: 30 });
    await db().updateTable('users').set({ state }).where('id', '=', user.id).execute();
    const person = await signIn({ nameId, attributes: { groups: saml_group_name } });
    expect(person.page.status).toBe(403);
    expect(person.page.text).toContain(reason);
    expect(await sessionsOf(user)).toBe(0);
    expect(await rolesOf(user)).toEqual({});
  });

  it('still requires the second factor of the account', async () => {
    const { user, nameId } = await linkedUser();
    await db().updateTable('users').set({ two_factor_enabled: true }).where('id', '=', user.id).execute();
    const person = await signIn({ nameId });
    expect(person.page).toMatchObject({ status: 303, location: '/users/sign_in/second_factor' });
    expect(await sessionsOf(user)).toBe(0);
  });
});

const rolesOf = async (user: TestUser): Promise<Record<number, number>> => {
  const rows = await db()
    .selectFrom('members')
    .select(['namespace_id', 'access_level'])
    .where('user_id', '=', user.id)
    .execute();
  return Object.fromEntries(rows.map((row) => [row.namespace_id, row.access_level]));
};

describe('a group of the provider', () => {
  it('grants, raises, lowers and removes the linked roles at each sign-in', async () => {
    const { user, nameId } = await linkedUser();
    const [one, other] = [await app().make.group({ visibility: 'private' }), await app().make.group()];
    const [staff, leads] = [name(), name()];
    const root = app().as(app().root);
    const linkTo = (id: number, saml_group_name: string, access_level: number) =>
      root.post(`/groups/${id}/saml_group_links`, { saml_group_name, access_level });
    await linkTo(one.id, staff, 20);
    await linkTo(one.id, leads, 40);
    await linkTo(other.id, staff, 30);

    await signIn({ nameId, attributes: { groups: [staff, leads, 'unknown'] } });
    expect(await rolesOf(user)).toEqual({ [one.id]: 40, [other.id]: 30 });
    expect((await app().as(user).get(`/groups/${one.id}`)).status).toBe(200);
    await signIn({ nameId, attributes: { groups: staff } });
    expect(await rolesOf(user)).toEqual({ [one.id]: 20, [other.id]: 30 });
    await root.delete(`/groups/${other.id}/saml_group_links/${staff}`);
    await signIn({ nameId, attributes: { groups: [staff, leads] } });
    expect(await rolesOf(user)).toEqual({ [one.id]: 40 });
    // Many providers omit the attribute for a user without groups.
    await signIn({ nameId });
    expect(await rolesOf(user)).toEqual({});
    expect((await app().as(user).get(`/groups/${one.id}`)).status).toBe(404);

    await app().settle();
    const emitted = await db()
      .selectFrom('events')
      .select(['kind', 'actor_id'])
      .where('subject_type', '=', 'GroupMember')
      .where((where) => where(where.ref('user_ids'), '@>', where.val([user.id])))
      .orderBy('id')
      .execute();
    expect(emitted.map(({ kind }) => kind)).toEqual([
      'member.added',
      'member.added',
      'member.updated',
      'member.updated',
      'member.removed',
      'member.removed',
    ]);
  });

  it('keeps roles that were granted or changed by hand', async () => {
    const { user, nameId } = await linkedUser();
    const [byHand, changed] = [await app().make.group(), await app().make.group()];
    const staff = name();
    const root = app().as(app().root);
    for (const { id } of [byHand, changed]) {
      await root.post(`/groups/${id}/saml_group_links`, { saml_group_name: staff, access_level: 30 });
    }
    await app().make.groupMember(byHand, user, 10);
    await signIn({ nameId, attributes: { groups: staff } });
    expect(await rolesOf(user)).toEqual({ [byHand.id]: 10, [changed.id]: 30 });
    await root.put(`/groups/${changed.id}/members/${user.id}`, { access_level: 40 });
    await signIn({ nameId, attributes: { groups: staff } });
    expect(await rolesOf(user)).toEqual({ [byHand.id]: 10, [changed.id]: 40 });
    await signIn({ nameId });
    expect(await rolesOf(user)).toEqual({ [byHand.id]: 10 });
  });

  it('keeps the last owner of a group', async () => {
    const { user, nameId } = await linkedUser();
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const leads = name();
    await app().as(owner).post(`/groups/${group.id}/saml_group_links`, { saml_group_name: leads, access_level: 50 });
    await signIn({ nameId, attributes: { groups: leads } });
    expect((await app().as(user).delete(`/groups/${group.id}/members/${owner.id}`)).status).toBe(204);
    await signIn({ nameId });
    expect(await rolesOf(user)).toEqual({ [group.id]: 50 });
  });
});

describe('a response of the provider', () => {
  /** Attacks a new sign-in with a forged response, and expects that no one is signed in. */
  const attack = async (forge: (request: SentRequest, nameId: string) => string): Promise<void> => {
    const { user, nameId } = await linkedUser();
    const request = await begin(new Visitor(app().url));
    const { status, text } = await deliver(forge(request, nameId));
    expect(status).toBe(403);
    expect(text).toContain('could not be verified');
    expect(await sessionsOf(user)).toBe(0);
  };

  it.each<[string, (request: SentRequest, nameId: string) => string]>([
    ['without a signature', (request, nameId) => responseAround(request, plainAssertion(request, { nameId }))],
    [
      'signed by somebody else',
      (request, nameId) => responseAround(request, signedAssertion(request, { nameId, key: WRONG_KEY })),
    ],
    [
      'changed after it was signed',
      (request, nameId) =>
        responseAround(request, signedAssertion(request, { nameId: 'mallory' })).replace('>mallory<', `>${nameId}<`),
    ],
    [
      'for another audience',
      (request, nameId) =>
        responseAround(request, signedAssertion(request, { nameId, audience: 'https://other.example' })),
    ],
    [
      'for another recipient',
      (request, nameId) =>
        responseAround(request, signedAssertion(request, { nameId, recipient: 'https://other.example/callback' })),
    ],
    ['expired', (request, nameId) => responseAround(request, signedAssertion(request, { nameId, notOnOrAfter: -60 }))],
    [
      'that nobody asked for',
      (request, nameId) =>
        responseAround(request, signedAssertion(request, { nameId, inResponseTo: '_other' }), '_other'),
    ],
    [
      'stolen from another request',
      (request, nameId) => responseAround(request, signedAssertion(request, { nameId, inResponseTo: '_other' })),
    ],
    [
      'wrapped beside an assertion of the attacker',
      (request, nameId) => {
        const signed = signedAssertion(request, { nameId: 'mallory' });
        return responseAround(request, plainAssertion(request, { nameId }) + signed);
      },
    ],
    [
      'wrapped inside an assertion of the attacker',
      (request, nameId) => {
        const signed = signedAssertion(request, { nameId: 'mallory' });
        const evil = plainAssertion(request, { nameId }).replace(
          '</saml:Assertion>',
          `<saml:Advice>${signed}</saml:Advice></saml:Assertion>`,
        );
        return responseAround(request, evil);
      },
    ],
    [
      'with the signature moved to an assertion of the attacker',
      (request, nameId) => {
        const signed = signedAssertion(request, { nameId: 'mallory' });
        const signature = /<ds:Signature .*<\/ds:Signature>/s.exec(signed)?.[0] ?? '';
        const original = signed.replace(signature, '');
        const evil = plainAssertion(request, { nameId }).replace(
          '</saml:Issuer>',
          `</saml:Issuer>${signature.replace('</ds:Signature>', `<ds:Object>${original}</ds:Object></ds:Signature>`)}`,
        );
        return responseAround(request, evil);
      },
    ],
    [
      'with the id of a signed one given to another',
      (request, nameId) => {
        const signed = signedAssertion(request, { nameId: 'mallory' });
        const id = / ID="([^"]*)"/.exec(signed)?.[1] ?? '';
        const evil = plainAssertion(request, { nameId }).replace(/ ID="[^"]*"/, ` ID="${id}"`);
        return responseAround(request, evil).replace(
          '</samlp:Status>',
          `</samlp:Status><samlp:Extensions>${signed}</samlp:Extensions>`,
        );
      },
    ],
    [
      'that declares entities',
      (request, nameId) =>
        `<!DOCTYPE x [<!ENTITY n "${nameId}">]>${responseAround(request, signedAssertion(request, { nameId }))}`,
    ],
    [
      'with a name for once',
      (request, nameId) =>
        responseAround(
          request,
          signedAssertion(request, { nameId, nameIdFormat: 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient' }),
        ),
    ],
    ['that is no XML', () => 'SAML'],
    ['that is nested very deep', () => `${'<a>'.repeat(20_000)}${'</a>'.repeat(20_000)}`],
    [
      'full of comments',
      (request, nameId) => responseAround(request, signedAssertion(request, { nameId }) + '<!---->'.repeat(15_000)),
    ],
    ['with elements without end', (request) => responseAround(request, '<a>'.repeat(30_000))],
    [
      'with attributes without end',
      (request) => responseAround(request, `<a${Array.from({ length: 9_000 }, (_, n) => ` a${n}="b"`).join('')}/>`),
    ],
  ])('is refused: one %s', async (_what, forge) => attack(forge));

  it('is refused quickly if it is too large', async () => {
    const request = await begin(new Visitor(app().url));
    const began = computedMs();
    await deliver(responseAround(request, `${signedAssertion(request, { nameId: 'x' })}${'<!---->'.repeat(15_000)}`));
    expect(computedMs() - began).toBeLessThan(1_000);
    // A realistic number of groups is accepted.
    const { user, nameId } = await linkedUser();
    await signIn({ nameId, attributes: { groups: Array.from({ length: 500 }, (_, n) => `cn=group ${n},dc=corp`) } });
    expect(await sessionsOf(user)).toBe(1);
  });

  it('cannot cut a name short with comments', async () => {
    const victim = await app().make.user();
    const prefix = `${name()}@corp.example`;
    await link(victim, prefix);
    const { user: attacker, nameId } = await (async () => {
      const user = await app().make.user();
      await link(user, `${prefix}.evil.example`);
      return { user, nameId: `${prefix}.evil.example` };
    })();
    const person = new Visitor(app().url);
    const request = await begin(person);
    const xml = responseAround(request, signedAssertion(request, { nameId }));
    const { location } = await deliver(xml.replace(`>${nameId}<`, `>${prefix}<!-- -->.evil.example<`));
    await person.get(location ?? '');
    expect(await sessionsOf(victim)).toBe(0);
    expect(await sessionsOf(attacker)).toBe(1);
  });

  it('is accepted only once', async () => {
    const { user, nameId } = await linkedUser();
    const person = new Visitor(app().url);
    const request = await begin(person);
    const xml = responseAround(request, signedAssertion(request, { nameId }));
    const answers = await Promise.all([deliver(xml), deliver(xml), deliver(xml)]);
    expect(answers.map(({ status }) => status).sort()).toEqual([303, 403, 403]);
    const { location } = answers.find(({ status }) => status === 303) ?? {};
    expect((await person.get(location ?? '')).location).toBe('/');
    expect((await person.get(location ?? '')).location).toBe('/users/sign_in');
    expect((await deliver(xml)).status).toBe(403);
    expect(await sessionsOf(user)).toBe(1);
  });

  it('signs in only the browser that started the sign-in', async () => {
    const { user, nameId } = await linkedUser();
    const attacker = new Visitor(app().url);
    const request = await begin(attacker);
    const { location } = await deliver(responseAround(request, signedAssertion(request, { nameId })));
    // The victim opens the link that the attacker got back, alone or during their own sign-in.
    const victim = new Visitor(app().url);
    expect((await victim.get(location ?? '')).location).toBe('/users/sign_in');
    await begin(victim);
    expect((await victim.get(location ?? '')).location).toBe('/users/sign_in');
    expect(await sessionsOf(user)).toBe(0);
  });

  it('leaves all other forms protected against requests from other sites', async () => {
    const person = new Visitor(app().url);
    expect((await person.post('/users/sign_in', { login: 'root', password: 'x' })).status).toBe(422);
    expect((await person.post('/users/auth/saml/callback')).status).toBe(400);
  });
});

it('deletes expired requests, and keeps the others', async () => {
  const kept = (await begin(new Visitor(app().url))).id;
  const expired = (await begin(new Visitor(app().url))).id;
  await db()
    .updateTable('saml_requests')
    .set({ expires_at: '2020-01-01T00:00:00Z' })
    .where('id', '=', expired)
    .execute();
  await sweepSamlRequests.run(app().context(), {}, { attempt: 1, lastAttempt: false });
  const left = (await db().selectFrom('saml_requests').select('id').execute()).map(({ id }) => id);
  expect(left).toContain(kept);
  expect(left).not.toContain(expired);
});

describe('without a provider', () => {
  const plain = useApp();

  it('shows no SAML pages', async () => {
    const person = new Visitor(plain().url);
    expect((await person.get('/users/sign_in')).html).not.toContain('/users/auth/saml');
    expect((await person.get('/users/auth/saml')).status).toBe(404);
    expect((await person.get('/users/auth/saml/metadata')).status).toBe(404);
    expect((await person.post('/users/auth/saml/callback', { SAMLResponse: encoded('<a/>') })).status).toBe(404);
  });
});
