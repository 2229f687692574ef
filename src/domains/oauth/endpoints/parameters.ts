import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { ClientCredentials } from '../client-authentication.ts';
import { invalidClient, invalidRequest } from '../protocol-error.ts';

/** The parameters of a request, by name. Empty ones count as absent (RFC 6749 §3.2). */
export type Parameters = ReadonlyMap<string, string>;

const MAX_BODY_BYTES = 64 * 1024;

/** Registers the body parsers of OAuth: forms, and JSON for clients that send it. */
export const registerBodies = (scope: FastifyInstance): void => {
  scope.removeAllContentTypeParsers();
  const options = { parseAs: 'string', bodyLimit: MAX_BODY_BYTES } as const;
  scope.addContentTypeParser('application/x-www-form-urlencoded', options, async (_request: unknown, text: string) =>
    readForm(text),
  );
  scope.addContentTypeParser('application/json', options, async (_request: unknown, text: string) => readJson(text));
  scope.addContentTypeParser('*', (request, _payload, done) => {
    if (request.headers['content-length'] === '0') done(null, undefined);
    else done(invalidRequest('The body must be a form (application/x-www-form-urlencoded).'));
  });
};

/** Parses form parameters. @throws OAuthError `invalid_request` for a repeated parameter */
const readForm = (text: string): Parameters => {
  const parameters = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) {
    if (value === '') continue;
    if (parameters.has(name)) throw invalidRequest('The request repeats a parameter.');
    parameters.set(name, value);
  }
  return parameters;
};

/** Parses the query of a request URL. @throws as `readForm` */
export const readQuery = (url: string): Parameters => {
  const mark = url.indexOf('?');
  return readForm(mark < 0 ? '' : url.slice(mark + 1));
};

/** Returns the parameter. @throws OAuthError `invalid_request` when it is missing */
export const required = (parameters: Parameters, name: string): string => {
  const value = parameters.get(name);
  if (value === undefined) throw invalidRequest(`Missing required parameter: ${name}.`);
  return value;
};

/** Whether the request carries any client identification. */
export const hasClient = (headers: IncomingHttpHeaders, parameters: Parameters): boolean =>
  headers.authorization !== undefined || parameters.has('client_id');

/** Reads the client's credentials. @throws OAuthError `invalid_client` for another authentication scheme */
export const readClient = ({ authorization }: IncomingHttpHeaders, parameters: Parameters): ClientCredentials => ({
  basic: authorization === undefined || authorization === '' ? null : readBasic(authorization),
  client_id: parameters.get('client_id') ?? null,
  client_secret: parameters.get('client_secret') ?? null,
});

/** Id and secret are each form-encoded before the pair is base64-encoded (RFC 6749 §2.3.1). */
const readBasic = (authorization: string): { readonly id: string; readonly secret: string } => {
  const [, pair] = /^basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization) ?? [];
  const text = Buffer.from(pair ?? '', 'base64').toString('utf8');
  const colon = text.indexOf(':');
  if (colon < 1) throw invalidClient();
  return { id: formDecode(text.slice(0, colon)), secret: formDecode(text.slice(colon + 1)) };
};

const formDecode = (text: string): string => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    // Some clients do not encode them.
    return text;
  }
};

const readJson = (text: string): Parameters => {
  const parameters = new Map<string, string>();
  if (text.trim() === '') return parameters;
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw invalidRequest('The body is not valid JSON.');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw invalidRequest('The body is not a JSON object.');
  }
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === '') continue;
    if (typeof value !== 'string') throw invalidRequest(`The parameter ${name.slice(0, 50)} is not a string.`);
    parameters.set(name, value);
  }
  return parameters;
};
