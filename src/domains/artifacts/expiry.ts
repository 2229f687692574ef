import { badParameters } from '#platform/errors.ts';
import { readExpiry } from '#platform/values/durations.ts';

/**
 * Returns after how many seconds artifacts expire, or null for never. `given` is what the job says (`1 week`, `never`),
 * `usual` the setting `default_artifacts_expire_in`, where `0` is never.
 *
 * @throws DomainError `parameters` if it is not a duration
 */
export const secondsToExpiry = (given: string | undefined, usual: string): number | null => {
  const text = (given ?? usual).trim();
  if (given === undefined && text === '0') return null;
  const seconds = readExpiry(text);
  if (seconds === undefined) throw badParameters('expire_in is invalid (allowed: 1 week, 3h 30 min, never)');
  return seconds;
};
