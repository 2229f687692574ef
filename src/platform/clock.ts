/** The time of day, injected so that tests can change it. Durations use `performance.now()` instead. */
export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };

/** Returns the calendar day in UTC as `YYYY-MM-DD`, the format in which expiry dates are compared. */
export const today = (clock: Clock): string => clock.now().toISOString().slice(0, 10);
