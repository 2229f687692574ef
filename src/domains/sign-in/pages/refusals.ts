import type { FormErrors } from '#pages/html.ts';
import { DomainError } from '#platform/errors.ts';

export interface Refusal {
  readonly status?: number;
  readonly errors: FormErrors;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Returns what to show beside the form. Throws errors on that the user cannot fix. `wrong` has a sentence for a refused
 * credential, with the fields that may be wrong, and `tooMany` is one for a rate limit.
 */
export const refusalOf = (
  error: unknown,
  wrong: FormErrors = { base: ['That did not work.'] },
  tooMany = 'There were too many failed attempts.',
): Refusal => {
  if (!(error instanceof DomainError)) throw error;
  const { code, message, details } = error;
  if (code === 'unauthenticated') return { status: 422, errors: wrong };
  if (code === 'invalid') return { status: 422, errors: details.fields ?? { base: [message] } };
  if (code === 'conflict') return { status: 409, errors: { base: [message] } };
  if (code === 'forbidden') return { status: 403, errors: { base: [message.replace(/^403 Forbidden - /, '')] } };
  if (code !== 'too_many_requests') throw error;
  const seconds = details.retryAfterSeconds ?? 5;
  const minutes = Math.ceil(seconds / 60);
  const when = seconds <= 60 ? 'in a minute' : `in ${minutes} minutes`;
  return {
    status: 429,
    errors: { base: [`${tooMany} Try again ${when}.`] },
    headers: { 'Retry-After': String(seconds) },
  };
};

/** Returns the options of `visit.show` for the status and headers of a refusal. */
export const answer = (status: number | undefined, headers: Readonly<Record<string, string>> | undefined) => ({
  ...(status === undefined ? {} : { status }),
  ...(headers === undefined ? {} : { headers }),
});
