import type { IncomingHttpHeaders } from 'node:http';
import type { Context } from '#platform/context.ts';
import { isDatabaseAway } from '#platform/db/failures.ts';
import { DomainError } from '#platform/errors.ts';

/** Who calls, by whatever transport; the app finds out the actor. */
export interface Caller {
  readonly transport: 'http' | 'websocket';
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** Path with query. */
  readonly url: string;
  readonly ip: string;
  readonly requestId: string;
  /** Aborts when the caller has gone. */
  readonly signal: AbortSignal;
  /** On the answer, whatever becomes of it; in vain on a WebSocket. */
  setHeader(name: string, value: string): void;
}

/**
 * Authenticates and makes the request's context. Throws DomainError for credentials that do not count, and for a
 * request by session cookie without its CSRF token.
 */
export type ContextOf = (caller: Caller) => Promise<Context>;

export interface Rejection {
  readonly status: number;
  readonly message: string;
  /** When it is worth coming again. */
  readonly retryAfterSeconds?: number;
}

/** How a caller is told that there is no context for it. Unexpected errors go on. */
export const rejectionOf = (error: unknown): Rejection => {
  if (isDatabaseAway(error)) return { status: 503, message: 'Service unavailable' };
  if (!(error instanceof DomainError)) throw error;
  const status = STATUSES[error.code] ?? 400;
  const { retryAfterSeconds } = error.details;
  return {
    status,
    message: status === 401 ? 'Invalid token' : error.message,
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
};

const STATUSES: Partial<Record<DomainError['code'], number>> = {
  unauthenticated: 401,
  invalid_token: 401,
  insufficient_scope: 403,
  forbidden: 403,
  not_found: 404,
  too_many_requests: 429,
  unavailable: 503,
};
