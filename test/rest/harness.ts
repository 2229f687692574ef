import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { Registry } from 'prom-client';
import { createHttp, type HttpOptions } from '#app/http.ts';
import type { Actor, Services } from '#platform/context.ts';
import { anonymous } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { invalidToken } from '#platform/errors.ts';
import type { Authenticate } from '#rest/auth.ts';
import { buildOpenApi } from '#rest/openapi.ts';
import type { Route } from '#rest/route.ts';
import { createTestServices } from '../support/services.ts';

export const EXTERNAL_URL = 'https://hub.example:8443';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  json(): unknown;
}

export interface Ask {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

export interface TinyApp extends AsyncDisposable {
  readonly services: Services;
  readonly port: number;
  readonly metrics: Registry;
  /** Sends a request over a real socket, with the path exactly as given. */
  ask(path: string, options?: Ask): Promise<Answer>;
}

const users: Readonly<Record<string, Actor>> = {
  'user-token': {
    ...anonymous,
    userId: 7,
    username: 'ada',
    scopes: new Set(['api']),
    credential: { kind: 'token', id: 1, holderId: 7, originId: null },
  },
  'reader-token': {
    ...anonymous,
    userId: 8,
    username: 'bob',
    scopes: new Set(['read_api']),
    credential: { kind: 'token', id: 2, holderId: 8, originId: null },
  },
  'admin-token': { ...anonymous, userId: 1, username: 'root', isAdmin: true },
};

const authenticate: Authenticate = async (credential) => {
  if (credential.kind === 'none') return anonymous;
  const user = users[credential.kind === 'basic' ? credential.password : credential.value];
  if (!user) throw invalidToken('Bad Access Token.');
  return user;
};

/** Creates an app with only these routes and without a database. */
export const createTinyApp = async (routes: readonly Route[], options: Partial<HttpOptions> = {}): Promise<TinyApp> => {
  const made = await createTestServices('postgres://nobody@127.0.0.1:1/none');
  const metrics = new Registry();
  const services: Services = { ...made.services, urls: { base: EXTERNAL_URL }, secretKey: randomBytes(32) };
  const fastify = await createHttp({
    services,
    routes,
    authenticate,
    createContext: createContextFactory(services),
    checkResponses: true,
    metrics,
    readiness: {},
    versions: () => Promise.resolve({ isV5Enabled: true, sunset: null }),
    countDeprecated: () => {},
    openApi: () => buildOpenApi(routes, { version: 'test', apiVersion: 4 }),
    ...options,
  });
  await fastify.listen({ host: '127.0.0.1', port: 0 });
  const address = fastify.server.address();
  if (address === null || typeof address === 'string') throw new Error('the server does not listen');
  const { port } = address;
  return {
    services,
    port,
    metrics,
    ask: (path, ask = {}) => askPort(port, path, ask),
    [Symbol.asyncDispose]: async () => {
      await fastify.close();
      await made[Symbol.asyncDispose]();
    },
  };
};

const askPort = (port: number, path: string, { method = 'GET', headers = {}, body }: Ask): Promise<Answer> =>
  new Promise((resolve, reject) => {
    // Without a length, Node.js sends the body of a DELETE without framing.
    const framing = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
    const outgoing = request(
      { host: '127.0.0.1', port, path, method, headers: { ...framing, ...headers }, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: () => JSON.parse(text) });
        });
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body);
  });

export const json = (value: unknown, method = 'POST'): Ask => ({
  method,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(value),
});

export const form = (text: string, method = 'POST'): Ask => ({
  method,
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: text,
});

export interface Part {
  readonly name: string;
  readonly value: string | Buffer;
  readonly filename?: string;
}

/** Builds a multipart body with its parts in this order. */
export const multipart = (parts: readonly Part[], headers: Record<string, string> = {}): Ask => {
  const boundary = 'x-boundary-x';
  const chunks = parts.flatMap(({ name, value, filename }) => [
    `--${boundary}\r\nContent-Disposition: form-data; name="${name}"`,
    filename === undefined ? '' : `; filename="${filename}"\r\nContent-Type: application/gzip`,
    '\r\n\r\n',
    value,
    '\r\n',
  ]);
  return {
    method: 'POST',
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}`, ...headers },
    body: Buffer.concat([...chunks, `--${boundary}--\r\n`].map((chunk) => Buffer.from(chunk))),
  };
};
