import { GraphQLError } from 'graphql';
import { isDatabaseAway } from '#platform/db/failures.ts';
import { DomainError, type ErrorCode } from '#platform/errors.ts';
import { GitError, type GitErrorReason } from '#platform/git/git-error.ts';
import type { Logger } from '#platform/log.ts';

interface Failure {
  /** Stands in `extensions.code`. */
  readonly code: string;
  /** Where a mutation reports it: in the payload's `errors`, or at the top level. */
  readonly of: 'payload' | 'top';
  /** Said instead of the domain's sentence, which may tell more than the caller may know. */
  readonly message?: string;
}

/** Clients match on this sentence (reference: graphql §1). */
const UNAVAILABLE =
  "The resource that you are attempting to access does not exist or you don't have permission to perform this action";

/** What each code of a domain becomes. Reads give null for `not_found` (see `orNull`). */
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
  too_large: { code: 'TOO_LARGE', of: 'top' },
  too_many_requests: { code: 'TOO_MANY_REQUESTS', of: 'top' },
  unavailable: { code: 'UNAVAILABLE', of: 'top' },
  no_space: { code: 'UNAVAILABLE', of: 'top' },
} as const satisfies Record<ErrorCode, Failure>;

/** What a repository is asked for may be more than it can give. */
const GIT_CODES: Partial<Record<GitErrorReason, string>> = {
  invalid: 'BAD_USER_INPUT',
  too_large: failures.too_large.code,
  timeout: failures.unavailable.code,
};

/** For reads: null for what is not there or may not be known of; other failures stay failures. */
export const orNull = async <T>(found: Promise<T>): Promise<T | null> => {
  try {
    return await found;
  } catch (error) {
    if (error instanceof DomainError && error.code === 'not_found') return null;
    throw error;
  }
};

/** The sentences for a payload's `errors`, or null when the failure belongs at the top level. */
export const payloadErrors = (error: unknown): string[] | null => {
  if (!(error instanceof DomainError) || failures[error.code].of !== 'payload') return null;
  const sentences = Object.entries(error.details.fields ?? {}).flatMap(([field, problems]) =>
    problems.map((problem) => (field === 'base' ? problem : `${title(field)} ${problem}`)),
  );
  return sentences.length > 0 ? sentences : [plain(error.message)];
};

export interface MaskContext {
  readonly log: Logger;
  readonly requestId: string;
}

/**
 * What a client may see of an error: the kit's and the language's own errors as they are, a domain's by the table
 * above, and of anything else only the request id under which it was logged.
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
  // A GraphQLError from a resolver is wrapped with itself as cause.
  if (!cause || cause instanceof GraphQLError) return error;
  log.error({ err: cause, requestId, path: error.path?.join('.') }, 'graphql: unexpected error');
  if (isDatabaseAway(cause))
    return new GraphQLError('Service unavailable', { ...where, extensions: { code: failures.unavailable.code } });
  return new GraphQLError('Internal server error', {
    ...where,
    extensions: { code: 'INTERNAL_SERVER_ERROR', requestId },
  });
};

/** Domain sentences may begin as the REST body does: `400 Bad request - ...`. */
const plain = (message: string): string => message.replace(/^\d{3}(?: [A-Z][a-z]+(?: [a-z]+)*)? - /, '');

const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));

const title = (field: string) => field.charAt(0).toUpperCase() + field.slice(1).replaceAll('_', ' ');
