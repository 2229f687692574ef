import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { invalidRequest } from '../protocol-error.ts';
import { sendProblem } from './answers.ts';

/** What scripts of other origins may send besides what a form could (Fetch §2.2.2 lists those). */
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
 * Lets scripts of every origin read the answers of a path. Cookies count for nothing there, so that nobody acts in
 * another's name.
 */
export const allowOrigins = async (_request: FastifyRequest, reply: FastifyReply): Promise<void> => {
  reply.header('Access-Control-Allow-Origin', '*');
  reply.header('Access-Control-Expose-Headers', 'WWW-Authenticate, Retry-After, X-Request-Id');
};

/** Answers the preflight of a path: yes to its methods and the headers above, and a refusal to everything else. */
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
