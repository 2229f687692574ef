import type { Exchange } from './route.ts';

/** Returns the time of the header `If-Unmodified-Since`; null if it is absent or no date, which RFC 9110 ignores. */
export const unmodifiedSince = ({ headers }: Exchange): Date | null => {
  const given = headers['if-unmodified-since'];
  const time = given === undefined ? Number.NaN : Date.parse(given);
  return Number.isNaN(time) ? null : new Date(time);
};
