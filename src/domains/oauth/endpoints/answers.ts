import type { FastifyReply } from 'fastify';
import { DomainError } from '#platform/errors.ts';
import { answerError } from '#rest/errors.ts';
import { OAuthError, type OAuthErrorCode } from '../protocol-error.ts';

/** Sends JSON that must not be cached, because it contains a secret or describes one. */
export const sendPrivate = (reply: FastifyReply, status: number, body: unknown): FastifyReply =>
  reply
    .code(status)
    .header('Cache-Control', 'no-store')
    .header('Pragma', 'no-cache')
    .header('X-Content-Type-Options', 'nosniff')
    .type('application/json')
    .send(Buffer.from(JSON.stringify(body)));

/** Sends a document that is the same for every caller. */
export const sendPublic = (reply: FastifyReply, body: unknown): FastifyReply =>
  reply
    .code(200)
    .header('Cache-Control', 'public, max-age=300')
    .header('X-Content-Type-Options', 'nosniff')
    .type('application/json')
    .send(Buffer.from(JSON.stringify(body)));

/**
 * Sends `error` and `error_description` (RFC 6749 §5.2). Returns true for an unexpected error, which the caller must
 * log.
 */
export const sendProblem = (reply: FastifyReply, error: unknown): boolean => {
  const problem = problemOf(error);
  for (const [name, value] of Object.entries(problem.headers ?? {})) reply.header(name, value);
  if (!reply.request.raw.complete) reply.header('Connection', 'close');
  sendPrivate(reply, problem.status, { error: problem.code, error_description: problem.description });
  return problem.unexpected ?? false;
};

interface Problem {
  readonly status: number;
  readonly code: OAuthErrorCode;
  readonly description: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly unexpected?: boolean;
}

const STATUS: Readonly<Partial<Record<OAuthErrorCode, number>>> = {
  invalid_client: 401,
  invalid_token: 401,
  insufficient_scope: 403,
};

const problemOf = (error: unknown): Problem => {
  if (error instanceof OAuthError) return protocolProblem(error);
  const { status, headers, unexpected } = answerError(error);
  if (error instanceof DomainError) {
    const { code, message } = error;
    if (code === 'unauthenticated' || code === 'invalid_token') {
      const description = code === 'invalid_token' ? message : 'The access token is invalid';
      return protocolProblem(new OAuthError('invalid_token', description));
    }
    const known = code === 'too_many_requests' || code === 'insufficient_scope' ? code : null;
    return { status, headers, description: message, code: known ?? general(status) };
  }
  const description = status >= 500 ? 'The server could not answer the request.' : 'The request is malformed.';
  return { status, headers, unexpected, description, code: general(status) };
};

const protocolProblem = ({ code, message }: OAuthError): Problem => ({
  status: STATUS[code] ?? 400,
  code,
  description: message,
  headers:
    code === 'invalid_client'
      ? { 'WWW-Authenticate': `Basic realm="Millrace", error="${code}"` }
      : code === 'invalid_token' || code === 'insufficient_scope'
        ? {
            'WWW-Authenticate': `Bearer realm="Millrace", error="${code}", error_description="${message.replaceAll(/["\\]/g, '')}"`,
          }
        : {},
});

const general = (status: number): OAuthErrorCode =>
  status === 503
    ? 'temporarily_unavailable'
    : status >= 500
      ? 'server_error'
      : status === 403
        ? 'access_denied'
        : 'invalid_request';
