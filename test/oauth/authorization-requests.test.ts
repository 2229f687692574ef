import { beforeAll, describe, expect, test } from 'vitest';
import { createApplication } from '#domains/oauth/applications.ts';
import { revokeAuthorization } from '#domains/oauth/tokens.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { ask, makeApplication, pkce, REDIRECT_URI, tokensFor } from './flows.ts';

const app = useApp();
let owner: TestUser;

beforeAll(async () => {
  owner = await app().make.user();
});

const wanted = (uid: string, fields: Record<string, string> = {}) => ({
  client_id: uid,
  redirect_uri: REDIRECT_URI,
  response_type: 'code',
  scope: 'openid profile',
  ...fields,
});

describe('a user is asked for consent', () => {
  test('once by a confidential application, and again for more scopes, on its request, and after a revocation', async () => {
    const user = await app().make.user();
    const application = await makeApplication(app(), owner);
    const asked = async (fields: Record<string, string> = {}, whom = user) =>
      ask(app(), whom, wanted(application.uid, fields));
    expect(await asked()).toHaveProperty('ok.consentNeeded', true);
    await tokensFor(app(), user, application, { scope: 'openid profile' });
    expect(await asked()).toHaveProperty('ok.consentNeeded', false);
    expect(await asked({ scope: 'openid' })).toHaveProperty('ok.consentNeeded', false);
    expect(await asked({ prompt: 'none' })).toHaveProperty('ok');
    expect(await asked({ scope: 'openid profile email' })).toHaveProperty('ok.consentNeeded', true);
    expect(await asked({ prompt: 'consent' })).toHaveProperty('ok.consentNeeded', true);
    expect(await asked({}, owner)).toHaveProperty('ok.consentNeeded', true);
    await revokeAuthorization(app().context(user), application.id);
    expect(await asked()).toHaveProperty('ok.consentNeeded', true);
  });

  test('each time by a public application', async () => {
    const native = await makeApplication(app(), owner, { confidential: false });
    const fields = { code_challenge: pkce().challenge, code_challenge_method: 'S256' };
    expect(await ask(app(), owner, wanted(native.uid, fields))).toHaveProperty('ok.consentNeeded', true);
    const read = await ask(app(), owner, wanted(native.uid, { ...fields, prompt: 'none' }));
    expect('redirect' in read && new URL(read.redirect).searchParams.get('error')).toBe('consent_required');
  });

  test('never by an application that an administrator trusts', async () => {
    const trusted = await createApplication(
      app().context(app().root),
      { name: 'Trusted', redirect_uris: [REDIRECT_URI], scopes: ['openid', 'profile'], trusted: true },
      { forHub: true },
    );
    expect(await ask(app(), owner, wanted(trusted.uid))).toHaveProperty('ok.consentNeeded', false);
  });

  test('not for scopes that only administrators can use', async () => {
    const mighty = await makeApplication(app(), owner, { scopes: ['api', 'sudo'] });
    const read = await ask(app(), owner, wanted(mighty.uid, { scope: 'api sudo' }));
    expect('redirect' in read && new URL(read.redirect).searchParams.get('error')).toBe('invalid_scope');
    expect(await ask(app(), app().root, wanted(mighty.uid, { scope: 'api sudo' }))).toHaveProperty('ok');
  });
});

describe('registering applications', () => {
  test('is for administrators only if the setting says so', async () => {
    const set = (value: boolean) =>
      app().as(app().root).put('/application/settings', { user_oauth_applications: value });
    await set(false);
    try {
      await expect(makeApplication(app(), owner)).rejects.toMatchObject({ code: 'forbidden' });
      expect(await makeApplication(app(), app().root)).toHaveProperty('secret');
    } finally {
      await set(true);
    }
  });
});
