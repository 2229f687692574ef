import type { Exchange } from './route.ts';

/** The `refusals` of a route that passes `unmodifiedSince` to the domain. */
export const MODIFIED = { 412: 'The resource has changed since the time in the header `If-Unmodified-Since`.' };

/**
 * Returns the time of the header `If-Unmodified-Since`. Null if it is absent or no date: RFC 9110 (13.1.4) and existing
 * servers ignore such a header.
 */
export const unmodifiedSince = ({ headers }: Exchange): Date | null => {
  const given = headers['if-unmodified-since'];
  const time = given === undefined ? Number.NaN : Date.parse(given);
  return Number.isNaN(time) ? null : new Date(time);
};
