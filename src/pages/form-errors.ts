import { DomainError } from '#platform/errors.ts';
import type { FormErrors } from './html.ts';

/** Returns the problems that the user can fix, to show with the form. Throws any other error on. */
export const formErrorsOf = (error: unknown): FormErrors => {
  if (!(error instanceof DomainError) || error.code !== 'invalid') throw error;
  return error.details.fields ?? { base: [error.message] };
};
