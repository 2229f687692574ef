import { GraphQLError } from 'graphql';
import { isRowGone } from '#platform/db/failures.ts';
import { isDiskFull } from '#platform/disk-full.ts';
import { DomainError, type ErrorCode, fieldSentences, ROW_GONE } from '#platform/errors.ts';
import { GitError, type GitErrorReason } from '#platform/git/git-error.ts';
import type { Logger } from '#platform/log.ts';
import { isUnavailable } from '#platform/unavailable.ts';

interface Failure {
  /** The value of `extensions.code`. */
  readonly code: string;
  /** Where a mutation reports the error: in the payload's `errors`, or at the top level. */
  readonly of: 'payload' | 'top';
  /** Replaces the domain's message, which may reveal more than the caller may know. */
  readonly message?: string;
}

/** Clients match on this message (reference: graphql §1). */
const UNAVAILABLE =
  "The resource that you are attempting to access does not exist or you don't have permission to perform this action";

/** The GraphQL error for each domain error code. Reads return null for `not_found` (see `orNull`). */
const failures = {
  unauthenticated: { code: 'UNAUTHENTICATED', of: 'top', message: UNAVAILABLE },
  invalid_token: { code: 'UNAUTHENTICATED', of: 'top', message: 'Invalid token' },
  insufficient_scope: { code: 'INSUFFICIENT_SCOPE', of: 'top' },
  forbidden: { code: 'FORBIDDEN', of: 'top', message: UNAVAILABLE },
  not_found: { code: 'NOT_FOUND', of: 'top', message: UNAVAILABLE },
  parameters: { code: 'BAD_USER_INPUT', of: 'top' },
  bad_request: { code: 'BAD_USER_INPUT', of: 'payload' },
  invalid: { code: 'INVALID', of: 'payload' },
  conflict: { code: 'CONFLICT', of: 'payload' },
  unprocessable: { code: 'UNPROCESSABLE', of: 'payload' },
  not_allowed: { code: 'NOT_ALLOWED', of: 'top' },
  gone: { code: 'GONE', of: 'top' },
  modified: { code: 'CONFLICT', of: 'payload' },
  too_large: { code: 'TOO_LARGE', of: 'top' },
  too_many_requests: { code: 'TOO_MANY_REQUESTS', of: 'top' },
  unavailable: { code: 'UNAVAILABLE', of: 'top' },
  no_space: { code: 'UNAVAILABLE', of: 'top' },
} as const satisfies Record<ErrorCode, Failure>;

/** Git errors that are the client's fault or temporary. All others are internal errors. */
const GIT_CODES: Partial<Record<GitErrorReason, string>> = {
  invalid: 'BAD_USER_INPUT',
  too_large: failures.too_large.code,
  timeout: failures.unavailable.code,
};

/** Creates the error for an argument that the schema cannot check. */
export const badInput = (message: string): GraphQLError =>
  new GraphQLError(message, { extensions: { code: failures.parameters.code } });

/** For reads: returns null when the resource does not exist or the caller may not know of it. Rethrows other errors. */
export const orNull = async <T>(found: Promise<T>): Promise<T | null> => {
  try {
    return await found;
  } catch (error) {
    if (error instanceof DomainError && error.code === 'not_found') return null;
    throw error;
  }
};

/** Returns the messages for a payload's `errors`, or null when the error belongs at the top level. */
export const payloadErrors = (error: unknown): string[] | null => {
  if (!(error instanceof DomainError) || failures[error.code].of !== 'payload') return null;
  const sentences = fieldSentences(error.details.fields ?? {});
  return sentences.length > 0 ? sentences : [plain(error.message)];
};

export interface MaskContext {
  readonly log: Logger;
  readonly requestId: string;
}

/**
 * Returns the error that a client may see. GraphQL errors pass unchanged, and domain errors are mapped by the table
 * above. Any other error is logged, and the client gets only the request id of the log entry.
 */
export const maskError = (error: unknown, { log, requestId }: MaskContext): GraphQLError => {
  if (!(error instanceof GraphQLError))
    return maskError(new GraphQLError('', { originalError: asError(error) }), { log, requestId });
  const cause = error.originalError;
  const where = { nodes: error.nodes, source: error.source, positions: error.positions, path: error.path };
  if (cause instanceof DomainError) {
    const failure: Failure = failures[cause.code];
    return new GraphQLError(failure.message ?? plain(cause.message), { ...where, extensions: { code: failure.code } });
  }
  const ofGit = cause instanceof GitError ? GIT_CODES[cause.reason] : undefined;
  if (ofGit && cause) return new GraphQLError(cause.message, { ...where, extensions: { code: ofGit } });
  // A GraphQLError thrown by a resolver is wrapped with itself as cause.
  if (!cause || cause instanceof GraphQLError) return error;
  log.error({ err: cause, requestId, path: error.path?.join('.') }, 'graphql: unexpected error');
  if (isDiskFull(cause))
    return new GraphQLError('Insufficient storage', { ...where, extensions: { code: failures.no_space.code } });
  if (isUnavailable(cause))
    return new GraphQLError('Service unavailable', { ...where, extensions: { code: failures.unavailable.code } });
  if (isRowGone(cause)) return new GraphQLError(ROW_GONE, { ...where, extensions: { code: failures.conflict.code } });
  return new GraphQLError('Internal server error', {
    ...where,
    extensions: { code: 'INTERNAL_SERVER_ERROR', requestId },
  });
};

/** Removes the prefix of REST messages, as in `400 Bad request - ...`. */
const plain = (message: string): string => message.replace(/^\d{3}(?: [A-Z][a-z]+(?: [a-z]+)*)? - /, '');

const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));
