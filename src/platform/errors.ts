import { dateOf } from './time.ts';

/**
 * The errors that a domain may throw. A domain never names an HTTP status: `rest/errors.ts` and `graphql/errors.ts`
 * each map every code once (reference: conventions §1).
 */
export type ErrorCode =
  | 'unauthenticated'
  | 'invalid_token'
  | 'insufficient_scope'
  | 'forbidden'
  | 'not_found'
  | 'parameters'
  | 'bad_request'
  | 'invalid'
  | 'conflict'
  | 'unprocessable'
  | 'not_allowed'
  | 'gone'
  | 'modified'
  | 'too_large'
  | 'too_many_requests'
  | 'unavailable'
  | 'no_space';

/** Messages per attribute. `base` holds messages about no single attribute. */
export type FieldErrors = { readonly [field: string]: readonly string[] };

export interface ErrorDetails {
  /** For `bad_request`: a machine-readable reason. */
  readonly errorCode?: string;
  /** For `invalid`, and for `conflict` if clients expect it: the errors of each attribute. */
  readonly fields?: FieldErrors;
  /** For `conflict` and `unprocessable` if clients expect a list of messages. */
  readonly messages?: readonly string[];
  /** For `insufficient_scope`: the scopes that would be accepted. */
  readonly scopes?: readonly string[];
  /** For `too_many_requests` and `unavailable`. */
  readonly retryAfterSeconds?: number;
  /** For `too_many_requests`: respond in plain text, with the text that administrators configured. */
  readonly plain?: true;
}

export class DomainError extends Error {
  override readonly name = 'DomainError';
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/**
 * The resource is absent or invisible to the caller; both give the same error. `what` is the resource's name in title
 * case, such as `Project`.
 */
export const notFound = (what?: string) =>
  new DomainError('not_found', what ? `404 ${what} Not Found` : '404 Not found');

/** The resource is visible to the caller, but they may not do this. */
export const forbidden = (reason?: string) =>
  new DomainError('forbidden', reason ? `403 Forbidden - ${reason}` : '403 Forbidden');

export const unauthenticated = () => new DomainError('unauthenticated', '401 Unauthorized');

/** The credential that was sent is not valid or no longer valid. */
export const invalidToken = (reason: string) => new DomainError('invalid_token', reason);

export const insufficientScope = (accepted: readonly string[]) =>
  new DomainError('insufficient_scope', 'The request requires higher privileges than provided by the access token.', {
    scopes: accepted,
  });

/** A parameter is missing or malformed. `problem` is a clause such as `title is missing`. */
export const badParameters = (problem: string) => new DomainError('parameters', problem);

/** The parameters are well formed, but the request cannot be served. `reason` completes "400 Bad request - ". */
export const badRequest = (reason: string) => new DomainError('bad_request', `400 Bad request - ${reason}`);

/** Validation failed: `invalid({ path: ['has already been taken'] })`. */
export const invalid = (fields: FieldErrors) =>
  new DomainError('invalid', fieldSentences(fields).join(', '), { fields });

/** Returns a sentence for each problem, such as `Path has already been taken`. */
export const fieldSentences = (fields: FieldErrors): string[] =>
  Object.entries(fields).flatMap(([field, problems]) =>
    problems.map((problem) => (field === 'base' ? problem : `${titleCase(field)} ${problem}`)),
  );

/** @throws DomainError `invalid` if there are problems */
export const requireValid = (problems: FieldErrors): void => {
  if (Object.keys(problems).length > 0) throw invalid(problems);
};

/** A message for `invalid`: the attribute has more than `max` characters. */
export const tooLong = (max: number | bigint): string => `is too long (maximum is ${max} characters)`;

export const conflict = (message = '409 Conflict', fields?: FieldErrors) =>
  new DomainError('conflict', message, fields ? { fields } : {});

/** The request is understood and well formed, but impossible in the current state. */
export const unprocessable = (message: string, fields?: FieldErrors) =>
  new DomainError('unprocessable', message, fields ? { fields } : {});

/**
 * Refuses to delete a row that has changed after `since`. Without `since` there is no condition. The caller has locked
 * or deleted the row in its transaction.
 *
 * @throws DomainError `modified`
 */
export const requireUnchanged = (row: { readonly updated_at: string }, since: Date | null | undefined): void => {
  // Callers know the time in whole seconds: HTTP dates have no fractions.
  if (since && dateOf(row.updated_at).setMilliseconds(0) > since.getTime())
    throw new DomainError('modified', '412 Precondition Failed');
};

/** The caller has made too many requests, or has too many running operations. */
export const tooManyRequests = (retryAfterSeconds: number) =>
  new DomainError('too_many_requests', 'This endpoint has been requested too many times. Try again later.', {
    retryAfterSeconds,
  });

const titleCase = (field: string) => field.charAt(0).toUpperCase() + field.slice(1).replaceAll('_', ' ');

/** The message if something that a request names was deleted while the request was carried out. */
export const ROW_GONE = 'something that the request names was deleted at the same moment; try again';
