/** Months have 30 days, years 365.25. */
const SECONDS: Readonly<Record<string, number>> = {
  s: 1,
  m: 60,
  h: 3_600,
  d: 86_400,
  w: 604_800,
  mo: 2_592_000,
  y: 31_557_600,
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
 * Reads a duration as CI files and settings write it: `3h 30 min`, `1 week and 2 days`, `90` (seconds), `1:30:00`. Returns
 * whole seconds, rounded down, or null if the text is no duration (reference: ci §1).
 */
export const readDuration = (text: string): number | null => {
  const given = text.trim();
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

/** Postgres cannot store much later times. */
const MAX_EXPIRY = 1_000 * 31_557_600;

/**
 * Reads after how many seconds artifacts expire. Null for `never`; undefined if the text is neither that nor a duration of
 * at most a thousand years.
 */
export const readExpiry = (text: string): number | null | undefined => {
  if (text.trim().toLowerCase() === 'never') return null;
  const seconds = readDuration(text);
  return seconds === null || seconds > MAX_EXPIRY ? undefined : seconds;
};
