import type { FastifyReply, FastifyRequest } from 'fastify';

const API = '/api/';
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const MAX_AGE_SECONDS = 600;

/**
 * Lets scripts of every origin read what the API answers to their token (docs/decisions/0067). Browsers hide answers to
 * requests with cookies, because no answer allows credentials.
 */
export const showToOrigins = ({ originalUrl, headers }: FastifyRequest, { raw }: FastifyReply): void => {
  if (headers.origin === undefined || !originalUrl.startsWith(API)) return;
  // Set on the raw response, so that errors and streams have them too.
  raw.setHeader('Access-Control-Allow-Origin', '*');
  raw.setHeader('Access-Control-Expose-Headers', '*');
};

/** Whether the request is a preflight for the API. Paths that answer preflights by themselves are left to do so. */
export const isPreflight = ({ method, originalUrl, headers, is404 }: FastifyRequest): boolean =>
  method === 'OPTIONS' &&
  is404 &&
  originalUrl.startsWith(API) &&
  headers.origin !== undefined &&
  headers['access-control-request-method'] !== undefined;

/** Allows every method and header. The request that follows is judged as any other. */
export const answerPreflight = ({ headers }: FastifyRequest, reply: FastifyReply): FastifyReply => {
  const asked = headers['access-control-request-headers'];
  // `*` would not include `Authorization`.
  if (asked !== undefined) reply.header('Access-Control-Allow-Headers', asked);
  return reply
    .code(204)
    .header('Access-Control-Allow-Methods', METHODS)
    .header('Access-Control-Max-Age', MAX_AGE_SECONDS)
    .header('Vary', 'Access-Control-Request-Headers, Access-Control-Request-Method')
    .send();
};
