/** The time of day, injected so that tests can move it. Durations are measured with `performance.now()` instead. */
export interface Clock {
  now(): Date;
}

export const systemClock: Clock = { now: () => new Date() };

/** The calendar day in UTC, `YYYY-MM-DD`: the form in which expiry dates are compared. */
export const today = (clock: Clock): string => clock.now().toISOString().slice(0, 10);
