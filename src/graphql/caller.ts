import type { IncomingHttpHeaders } from 'node:http';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { isUnavailable } from '#platform/unavailable.ts';

/** The caller of a request, over any transport. The app authenticates it. */
export interface Caller {
  readonly transport: 'http' | 'websocket';
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** Path with query. */
  readonly url: string;
  readonly ip: string;
  readonly requestId: string;
  /** Aborts when the caller disconnects. */
  readonly signal: AbortSignal;
  /** Sets a header on the response, whatever its outcome. Has no effect on a WebSocket. */
  setHeader(name: string, value: string): void;
}

/**
 * Authenticates the caller and creates the request's context.
 * @throws DomainError for invalid credentials, and for a request with a session cookie but no CSRF token
 */
export type ContextOf = (caller: Caller) => Promise<Context>;

/**
 * Returns the context of an assumed caller, who must still be confirmed (decision 17). Null if there is none: then
 * `ContextOf` authenticates the caller.
 */
export type Assume = (caller: Caller) => Promise<Context | null>;

export interface Rejection {
  readonly status: number;
  readonly message: string;
  /** How long the client should wait before it retries. */
  readonly retryAfterSeconds?: number;
}

/** Maps an authentication failure to the response for the caller. Rethrows unexpected errors. */
export const rejectionOf = (error: unknown): Rejection => {
  if (isUnavailable(error)) return { status: 503, message: 'Service unavailable' };
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
