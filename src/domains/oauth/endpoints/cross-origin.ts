import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { invalidRequest } from '../protocol-error.ts';
import { sendProblem } from './answers.ts';

/** The request headers that scripts of other origins may send beyond the CORS-safelisted ones (Fetch §2.2.2). */
const HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'authorization',
  'content-language',
  'content-type',
]);
const SHOWN_HEADERS = 'Authorization, Content-Type, Accept, Accept-Language, Content-Language';
const MAX_AGE_SECONDS = 600;

/**
 * Lets scripts of every origin read the responses of a path. These paths ignore cookies, so no script can act as the
 * user.
 */
export const allowOrigins = async (_request: FastifyRequest, reply: FastifyReply): Promise<void> => {
  reply.header('Access-Control-Allow-Origin', '*');
  reply.header('Access-Control-Expose-Headers', 'WWW-Authenticate, Retry-After, X-Request-Id');
};

/** Answers preflight requests for a path: allows its methods and the headers above, and refuses everything else. */
export const answerPreflight = (fastify: FastifyInstance, url: string, methods: readonly string[]): void => {
  fastify.options(url, async ({ headers }, reply) => {
    const asked = (headers['access-control-request-headers'] ?? '')
      .split(',')
      .map((name) => name.trim().toLowerCase())
      .filter((name) => name !== '');
    const method = headers['access-control-request-method'];
    if (method === undefined || !methods.includes(method) || !asked.every((name) => HEADERS.has(name))) {
      sendProblem(reply, invalidRequest('The method or a header is not allowed across origins.'));
      return reply;
    }
    return reply
      .code(204)
      .header('Access-Control-Allow-Origin', '*')
      .header('Access-Control-Allow-Methods', methods.join(', '))
      .header('Access-Control-Allow-Headers', SHOWN_HEADERS)
      .header('Access-Control-Max-Age', MAX_AGE_SECONDS)
      .header('Vary', 'Access-Control-Request-Headers, Access-Control-Request-Method')
      .send();
  });
};
