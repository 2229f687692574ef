/**
 * Times stay in the text format of Postgres (`2026-11-21 01:42:33.123456+00`, or with `T` and `+00:00` in JSON) until
 * they leave the hub. These functions convert them to each API format. Sessions use UTC, so the usual case only slices
 * the text; other cases use Date.
 */
const UTC_TEXT = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:\+00(?::?00)?|Z)$/;

/** `2026-11-21T01:42:33.123Z`: the format of REST records and the GraphQL scalar Time. Null stays null. */
export function isoTime(text: string): string;
export function isoTime(text: string | null): string | null;
export function isoTime(text: string | null): string | null {
  if (text === null) return null;
  const parts = UTC_TEXT.exec(text);
  return parts ? `${parts[1]}T${parts[2]}.${(parts[3] ?? '').slice(0, 3).padEnd(3, '0')}Z` : dateOf(text).toISOString();
}

/** `2026-11-21`, for a date or a time. Null stays null. */
export function isoDate(text: string): string;
export function isoDate(text: string | null): string | null;
export function isoDate(text: string | null): string | null {
  if (text === null) return null;
  return text.length === 10 || UTC_TEXT.test(text) ? text.slice(0, 10) : dateOf(text).toISOString().slice(0, 10);
}

/** `2026-11-21 01:42:33 UTC`: the format of webhook bodies. Null stays null. */
export function hookTime(text: string): string;
export function hookTime(text: string | null): string | null;
export function hookTime(text: string | null): string | null {
  const time = isoTime(text);
  return time === null ? null : `${time.slice(0, 10)} ${time.slice(11, 19)} UTC`;
}

/**
 * Returns the time as ISO 8601, or null if it is invalid or outside the years 1 to 9999, which Postgres cannot read in
 * this format.
 */
export const storableTime = (date: Date): string | null => {
  const text = Number.isNaN(date.getTime()) ? '' : date.toISOString();
  return /^(?!0000)\d{4}-/.test(text) ? text : null;
};

/** Returns the time as a Date. */
export const dateOf = (text: string): Date => {
  // Postgres may write an offset with hours only, which Date cannot parse.
  const date = new Date(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
  if (Number.isNaN(date.getTime())) throw new RangeError(`not a time: ${text.slice(0, 40)}`);
  return date;
};
