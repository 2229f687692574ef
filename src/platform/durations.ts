const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Seconds of each unit, by its names. */
const UNITS: ReadonlyMap<string, number> = new Map(
  (
    [
      [1, ['s', 'sec', 'secs', 'second', 'seconds']],
      [MINUTE, ['m', 'min', 'mins', 'minute', 'minutes']],
      [HOUR, ['h', 'hr', 'hrs', 'hour', 'hours']],
      [DAY, ['d', 'day', 'days']],
      [7 * DAY, ['w', 'wk', 'wks', 'week', 'weeks']],
      [30 * DAY, ['mo', 'mos', 'month', 'months']],
      [365.25 * DAY, ['y', 'yr', 'yrs', 'year', 'years']],
    ] as const
  ).flatMap(([seconds, names]) => names.map((name) => [name, seconds] as const)),
);

const MAX_LENGTH = 255;
/** One amount with its unit, and what may stand before the next: `3h`, `30 min`, `1 week and`, `2 days,`. */
const PART = /^(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]+)\s*(?:,\s*|and\s+)?/;
const BARE = /^\d{1,12}$/;

/**
 * Reads a duration of the CI file: `3h 30 min`, `1 week and 2 days`, `90` (seconds). Returns whole seconds, or null if
 * it is none (reference: ci §1).
 */
export const readDuration = (text: string): number | null => {
  if (text.length > MAX_LENGTH) return null;
  let rest = text.trim().toLowerCase();
  if (BARE.test(rest)) return Number(rest);
  let seconds = 0;
  if (rest === '') return null;
  while (rest !== '') {
    const [part = '', amount = '', name = ''] = PART.exec(rest) ?? [];
    const unit = UNITS.get(name);
    if (unit === undefined) return null;
    seconds += Number(amount) * unit;
    rest = rest.slice(part.length);
  }
  return Math.round(seconds);
};
