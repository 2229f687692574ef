import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Services } from '#platform/context.ts';
import { isDiskFull } from '#platform/disk-full.ts';
import { DomainError } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import { isUnavailable } from '#platform/unavailable.ts';

const REALM = 'Basic realm="Millrace", charset="UTF-8"';

/** Keeps caches from storing the answer, as git's own server does. */
export const noCache = (reply: FastifyReply): FastifyReply =>
  reply
    .header('Expires', 'Fri, 01 Jan 1980 00:00:00 GMT')
    .header('Pragma', 'no-cache')
    .header('Cache-Control', 'no-cache, max-age=0, must-revalidate');

const STATUS: Readonly<Record<string, number>> = {
  unauthenticated: 401,
  invalid_token: 401,
  insufficient_scope: 403,
  forbidden: 403,
  not_found: 404,
  too_many_requests: 429,
  unavailable: 503,
  no_space: 507,
};
const GIT_STATUS: Readonly<Record<string, number>> = { invalid: 400, missing: 404, too_large: 413, timeout: 504 };

const FULL = 'There is no space left';
const BROKEN = 'Something went wrong on our side';
const AWAY = 'The service is not available at the moment';
const TEXTS: Readonly<Record<number, string>> = { 500: BROKEN, 503: AWAY, 507: FULL };

/** Answers in plain text, which git shows after `remote:`. */
export const answerError = (services: Services, error: unknown, request: FastifyRequest, reply: FastifyReply) => {
  const known =
    error instanceof DomainError
      ? (STATUS[error.code] ?? 400)
      : isDiskFull(error)
        ? 507
        : isUnavailable(error)
          ? 503
          : error instanceof GitError
            ? (GIT_STATUS[error.reason] ?? 500)
            : 500;
  if (known >= 500 && !request.abortController?.signal.aborted) {
    services.log.error({ err: error, request_id: request.id }, 'git request failed');
  }
  if (known === 401) reply.header('WWW-Authenticate', REALM);
  const retryAfter = error instanceof DomainError ? error.details.retryAfterSeconds : undefined;
  if (retryAfter !== undefined) reply.header('Retry-After', retryAfter);
  const text = TEXTS[known] ?? (error instanceof Error ? error.message : BROKEN);
  return noCache(reply).code(known).type('text/plain; charset=utf-8').send(`${text}\n`);
};
