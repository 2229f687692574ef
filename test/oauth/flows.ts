import { createHash } from 'node:crypto';
import { type ApplicationInput, type CreatedApplication, createApplication } from '#domains/oauth/applications.ts';
import { approve, readAuthorizationRequest } from '#domains/oauth/authorization.ts';
import { randomToken } from '#platform/secrets.ts';
import type { TestApp, TestUser } from '../support/app.ts';
import type { Answer } from '../support/client.ts';

export const REDIRECT_URI = 'https://client.example/callback';

/** Registers an application, by default a confidential one with the scopes `api openid profile email`. */
export const makeApplication = (
  app: TestApp,
  owner: TestUser,
  input: Partial<ApplicationInput> = {},
): Promise<CreatedApplication> =>
  createApplication(app.context(owner), {
    name: 'Some application',
    redirect_uris: [REDIRECT_URI],
    scopes: ['api', 'openid', 'profile', 'email'],
    ...input,
  });

export const pkce = () => {
  const verifier = randomToken(64);
  return { verifier, challenge: createHash('sha256').update(verifier).digest('base64url') };
};

type Fields = Readonly<Record<string, string>>;

/** Returns what `/oauth/authorize` decides about a request of the user, in the form that the page gets. */
export const ask = (app: TestApp, user: TestUser | null, parameters: Fields) =>
  readAuthorizationRequest(
    user ? app.context(user) : { ...app.context(), actor: { ...app.context().actor, userId: null, isAdmin: false } },
    new URLSearchParams(parameters).toString(),
  );

/** Authorizes the application as the user, and returns the code. */
export const codeFor = async (
  app: TestApp,
  user: TestUser,
  application: CreatedApplication,
  parameters: Fields = {},
): Promise<string> => {
  const read = await ask(app, user, {
    client_id: application.uid,
    redirect_uri: REDIRECT_URI,
    response_type: 'code',
    ...parameters,
  });
  if (!('ok' in read)) throw new Error(`not asked for consent: ${JSON.stringify(read)}`);
  const code = new URL(await approve(app.context(user), read.ok)).searchParams.get('code');
  if (!code) throw new Error('there is no code');
  return code;
};

/** Posts a form to an OAuth endpoint. */
export const post = async (
  app: TestApp,
  path: string,
  fields: Fields | URLSearchParams,
  headers: Fields = {},
): Promise<Answer> =>
  answered(await fetch(app.url + path, { method: 'POST', headers, body: new URLSearchParams(fields) }));

export const get = async (app: TestApp, path: string, headers: Fields = {}): Promise<Answer> =>
  answered(await fetch(app.url + path, { headers, redirect: 'manual' }));

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

export const basic = (id: string, secret: string) => ({
  authorization: `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString('base64')}`,
});

/** Returns the parameters that authenticate a confidential application. */
export const credentials = ({ uid, secret }: CreatedApplication) => ({ client_id: uid, client_secret: secret });

/** Redeems a code with the application's secret. */
export const redeem = (
  app: TestApp,
  application: CreatedApplication,
  code: string,
  fields: Fields = {},
): Promise<Answer> =>
  post(app, '/oauth/token', {
    grant_type: 'authorization_code',
    ...credentials(application),
    code,
    redirect_uri: REDIRECT_URI,
    ...fields,
  });

/** Gets a pair of tokens of the user for the application. */
export const tokensFor = async (
  app: TestApp,
  user: TestUser,
  application: CreatedApplication,
  parameters: Fields = {},
): Promise<{ readonly access_token: string; readonly refresh_token: string; readonly id_token?: string }> => {
  const { status, body } = await redeem(app, application, await codeFor(app, user, application, parameters));
  if (status !== 200) throw new Error(`no tokens: ${JSON.stringify(body)}`);
  return body;
};

/** Returns the HTTP status of an API request with the token. */
export const apiStatus = async (app: TestApp, token: string): Promise<number> =>
  (await get(app, '/api/v4/user', bearer(token))).status;

const answered = async (response: Response): Promise<Answer> => {
  const text = await response.text();
  const isJson = (response.headers.get('content-type') ?? '').includes('json');
  return { status: response.status, headers: response.headers, body: isJson && text !== '' ? JSON.parse(text) : text };
};
