import { invalid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';

// The texts of issues and merge requests.

/** Characters of a title. */
export const MAX_TITLE = 255;
const MAX_DESCRIPTION = 1_048_576;

/** Returns the title without surrounding spaces. @throws DomainError `invalid` if it is empty or too long */
export const readTitle = (given: string): string => {
  const title = given.trim();
  if (title === '') throw invalid({ title: ["can't be blank"] });
  if (isLongerThan(title, MAX_TITLE)) throw invalid({ title: [tooLong(MAX_TITLE)] });
  return title;
};

/** @throws DomainError `invalid` if it is too long */
export const checkDescription = (description: string | null | undefined): void => {
  if (isLongerThan(description ?? '', MAX_DESCRIPTION)) {
    throw invalid({ description: [tooLong(MAX_DESCRIPTION)] });
  }
};
