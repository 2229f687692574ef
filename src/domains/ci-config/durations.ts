/** Durations as CI files and artifacts write them: `3h 30 min`, `1 week and 2 days`, `90`. Months have 30 days. */
const SECONDS: Readonly<Record<string, number>> = {
  s: 1,
  m: 60,
  h: 3_600,
  d: 86_400,
  w: 604_800,
  mo: 2_592_000,
  y: 31_536_000,
};

const UNITS: Readonly<Record<string, string>> = {
  second: 's',
  sec: 's',
  s: 's',
  minute: 'm',
  min: 'm',
  m: 'm',
  hour: 'h',
  hr: 'h',
  h: 'h',
  day: 'd',
  dy: 'd',
  d: 'd',
  week: 'w',
  wk: 'w',
  w: 'w',
  month: 'mo',
  mo: 'mo',
  mth: 'mo',
  year: 'y',
  yr: 'y',
  y: 'y',
};

const MAX_LENGTH = 100;
const PART = /\s*(?:and\b|,)?\s*(\d{1,10}(?:\.\d{1,6})?)(?![\d.])\s*([a-z]*)/iy;
const CLOCK = /^(?:(\d{1,4}):)?([0-5]?\d):([0-5]\d)$/;

/**
 * Returns the seconds of a duration, rounded down; null if the text is no duration. A number without a unit is seconds.
 * `1:30:00` is read as hours, minutes and seconds.
 */
export const parseDuration = (text: string | number): number | null => {
  const given = String(text).trim();
  if (given === '' || given.length > MAX_LENGTH) return null;
  const clock = CLOCK.exec(given);
  if (clock) return Number(clock[1] ?? 0) * 3_600 + Number(clock[2]) * 60 + Number(clock[3]);
  let seconds = 0;
  for (let at = 0; at < given.length; ) {
    PART.lastIndex = at;
    const part = PART.exec(given);
    if (!part) return null;
    const unit = unitOf(part[2] ?? '');
    if (unit === null) return null;
    seconds += Number(part[1]) * unit;
    at = PART.lastIndex;
  }
  return Number.isSafeInteger(Math.floor(seconds)) ? Math.floor(seconds) : null;
};

const unitOf = (name: string): number | null => {
  if (name === '') return 1;
  const lower = name.toLowerCase();
  const unit = Object.hasOwn(UNITS, lower) ? UNITS[lower] : UNITS[singular(lower)];
  return unit === undefined ? null : (SECONDS[unit] ?? null);
};

const singular = (name: string): string => {
  const short = name.endsWith('s') ? name.slice(0, -1) : name;
  return Object.hasOwn(UNITS, short) ? short : '';
};

/**
 * Returns the seconds after which artifacts expire, null for `never`, or undefined if the text is neither
 * `never` nor a duration.
 */
export const parseExpiry = (text: string): number | null | undefined =>
  text.trim().toLowerCase() === 'never' ? null : (parseDuration(text) ?? undefined);
