import { Cron } from 'croner';
import { NAMED_ZONES } from './zones.ts';

/** A pattern of five fields. `?` and names like `@daily` are not among them. */
const PATTERN = /^[\w*,/#-]+(?:\s+[\w*,/#-]+){4}$/;

/**
 * Returns the first time after `after` that the pattern names in the time zone. Null if the pattern is invalid, or
 * names no time, such as 31 February. In the hour that a change of clocks skips, the run is moved to its end.
 */
export const nextRun = (pattern: string, zone: string, after: Date): Date | null => {
  const timezone = ianaZone(zone);
  if (timezone === null || !PATTERN.test(pattern.trim())) return null;
  try {
    return new Cron(pattern.trim(), { timezone, mode: '5-part' }).nextRun(after);
  } catch {
    // The library throws for every pattern that it cannot read.
    return null;
  }
};

/** Returns the IANA name of a time zone, which is given by that name or by its name in Rails; null if there is none. */
export const ianaZone = (zone: string): string | null => {
  const named = Object.hasOwn(NAMED_ZONES, zone) ? NAMED_ZONES[zone] : undefined;
  const name = named ?? zone;
  if (!/^[A-Za-z]/.test(name)) return null;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    // The zone does not exist.
    return null;
  }
};
