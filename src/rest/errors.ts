import { isRowGone } from '#platform/db/failures.ts';
import { isDiskFull } from '#platform/disk-full.ts';
import { DomainError, type ErrorCode, type ErrorDetails, ROW_GONE } from '#platform/errors.ts';
import { GitError, type GitErrorReason } from '#platform/git/git-error.ts';
import { isUnavailable } from '#platform/unavailable.ts';

/** An error of HTTP itself, with its status and body. Domains do not know these. */
export class RestError extends Error {
  override readonly name = 'RestError';
  readonly status: number;
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) {
    super(`HTTP ${status}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

export interface ErrorAnswer {
  readonly status: number;
  /** A string is plain text. */
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;
  /** True for an unexpected error, which must be logged with its stack. */
  readonly unexpected: boolean;
}

type Mapping = (
  message: string,
  details: ErrorDetails,
) => Omit<ErrorAnswer, 'unexpected' | 'headers'> & Partial<Pick<ErrorAnswer, 'headers'>>;

const messageAs =
  (status: number): Mapping =>
  (message) => ({ status, body: { message } });

const DEFAULT_RETRY_SECONDS = 5;
const retryAfter = (details: ErrorDetails) => ({
  'Retry-After': String(details.retryAfterSeconds ?? DEFAULT_RETRY_SECONDS),
});

/** The status and body of each domain error code (conventions §1). */
const mappings = {
  unauthenticated: messageAs(401),
  invalid_token: (message) => ({
    status: 401,
    body: { error: 'invalid_token', error_description: message },
    headers: { 'WWW-Authenticate': 'Bearer' },
  }),
  insufficient_scope: (message, { scopes = [] }) => ({
    status: 403,
    body: { error: 'insufficient_scope', error_description: message, scope: scopes.join(' ') },
  }),
  forbidden: messageAs(403),
  not_found: messageAs(404),
  parameters: (message) => ({ status: 400, body: { error: message } }),
  bad_request: (message, { errorCode }) => ({
    status: 400,
    body: { message, ...(errorCode === undefined ? {} : { error_code: errorCode }) },
  }),
  invalid: (message, { fields }) => ({ status: 400, body: { message: fields ?? message } }),
  conflict: (message, { fields, messages }) => ({ status: 409, body: { message: fields ?? messages ?? message } }),
  unprocessable: (message, { fields, messages }) => ({ status: 422, body: { message: fields ?? messages ?? message } }),
  not_allowed: messageAs(405),
  gone: messageAs(410),
  modified: messageAs(412),
  too_large: messageAs(413),
  too_many_requests: (message, details) => ({
    status: 429,
    body: details.plain ? message : { message: { error: message } },
    headers: retryAfter(details),
  }),
  unavailable: (message, details) => ({ status: 503, body: { message }, headers: retryAfter(details) }),
  no_space: messageAs(507),
} satisfies Record<ErrorCode, Mapping>;

/** Git errors that are the client's fault or temporary. All others are internal errors. */
const gitMappings: Partial<Record<GitErrorReason, (message: string) => Omit<ErrorAnswer, 'unexpected' | 'headers'>>> = {
  invalid: (message) => ({ status: 400, body: { message: `400 Bad request - ${message}` } }),
  too_large: (message) => ({ status: 413, body: { message } }),
  timeout: (message) => ({ status: 503, body: { message } }),
};

/**
 * Returns the response to a failed request. It never contains a stack, a path or a statement: unexpected errors become
 * a plain 500.
 */
export const answerError = (error: unknown): ErrorAnswer => {
  if (error instanceof DomainError) {
    const mapping: Mapping = mappings[error.code];
    return { headers: {}, unexpected: false, ...mapping(error.message, error.details) };
  }
  if (error instanceof RestError)
    return { status: error.status, body: error.body, headers: error.headers, unexpected: false };
  if (isDiskFull(error))
    return { status: 507, body: { message: '507 Insufficient Storage' }, headers: {}, unexpected: true };
  const ofGit = error instanceof GitError ? gitMappings[error.reason] : undefined;
  if (ofGit && error instanceof GitError) return { headers: {}, unexpected: false, ...ofGit(error.message) };
  const code = codeOf(error);
  if (isUnavailable(error)) {
    return {
      status: 503,
      body: { message: '503 Service Unavailable' },
      headers: retryAfter({}),
      unexpected: true,
    };
  }
  const status = FRAMEWORK_STATUS[code] ?? statusOf(error);
  if (status !== null)
    return { status, body: FRAMEWORK_BODIES[status] ?? { error: `${status} Error` }, headers: {}, unexpected: false };
  if (code === NUMBER_OUT_OF_RANGE) {
    return {
      status: 400,
      body: { message: '400 Bad request - a number is out of range' },
      headers: {},
      unexpected: false,
    };
  }
  if (isRowGone(error))
    return { status: 409, body: { message: `409 Conflict - ${ROW_GONE}` }, headers: {}, unexpected: true };
  return { status: 500, body: { message: '500 Internal Server Error' }, headers: {}, unexpected: true };
};

/** The body for routes that do not exist. */
export const NO_SUCH_ROUTE = { error: '404 Not Found' };

/** Creates the error for a method that a path does not support. */
export const methodNotAllowed = (methods: readonly string[]): RestError =>
  new RestError(405, { error: '405 Not Allowed' }, { Allow: methods.join(', ') });

const FRAMEWORK_BODIES: Readonly<Record<number, unknown>> = {
  400: { error: '400 Bad Request' },
  404: NO_SUCH_ROUTE,
  405: { message: '405 Method Not Allowed' },
  406: { message: '406 Not Acceptable' },
  408: { message: '408 Request Timeout' },
  413: { message: '413 Request Entity Too Large' },
  414: { message: '414 Request-URI Too Large' },
  415: { error: '415 Unsupported Media Type' },
  431: { message: '431 Request Header Fields Too Large' },
};

const FRAMEWORK_STATUS: Readonly<Record<string, number>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 413,
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 415,
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 400,
  FST_ERR_BAD_URL: 400,
  FST_ERR_MAX_PARAM_LENGTH: 414,
  FST_INVALID_MULTIPART_CONTENT_TYPE: 415,
  FST_INVALID_JSON_FIELD_ERROR: 400,
  FST_PARTS_LIMIT: 400,
  FST_FILES_LIMIT: 400,
  FST_FIELDS_LIMIT: 400,
};

const NUMBER_OUT_OF_RANGE = '22003';

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';

/** Returns the client error status of errors from Fastify and its plugins, or null. */
const statusOf = (error: unknown): number | null =>
  error instanceof Error &&
  'statusCode' in error &&
  typeof error.statusCode === 'number' &&
  error.statusCode >= 400 &&
  error.statusCode < 500
    ? error.statusCode
    : null;
