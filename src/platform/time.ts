/**
 * Times stay the text Postgres wrote (`2026-11-21 01:42:33.123456+00`, or with `T` and `+00:00` out of JSON functions)
 * until they leave; here is each outward form. Sessions are pinned to UTC, so the usual case is cut out of the text;
 * anything else goes through Date.
 */
const UTC_TEXT = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:\+00(?::?00)?|Z)$/;

/** `2026-11-21T01:42:33.123Z`: the form of REST records and the GraphQL scalar Time. Null stays null. */
export function isoTime(text: string): string;
export function isoTime(text: string | null): string | null;
export function isoTime(text: string | null): string | null {
  if (text === null) return null;
  const parts = UTC_TEXT.exec(text);
  return parts ? `${parts[1]}T${parts[2]}.${(parts[3] ?? '').slice(0, 3).padEnd(3, '0')}Z` : dateOf(text).toISOString();
}

/** `2026-11-21`, of a date or a time. Null stays null. */
export function isoDate(text: string): string;
export function isoDate(text: string | null): string | null;
export function isoDate(text: string | null): string | null {
  if (text === null) return null;
  return text.length === 10 || UTC_TEXT.test(text) ? text.slice(0, 10) : dateOf(text).toISOString().slice(0, 10);
}

/** `2026-11-21 01:42:33 UTC`: the form of webhook bodies. Null stays null. */
export function hookTime(text: string): string;
export function hookTime(text: string | null): string | null;
export function hookTime(text: string | null): string | null {
  const time = isoTime(text);
  return time === null ? null : `${time.slice(0, 10)} ${time.slice(11, 19)} UTC`;
}

/** The time as ISO 8601, or null where it is none or lies outside the years 1 to 9999: others Postgres does not read in this form. */
export const storableTime = (date: Date): string | null => {
  const text = Number.isNaN(date.getTime()) ? '' : date.toISOString();
  return /^(?!0000)\d{4}-/.test(text) ? text : null;
};

const dateOf = (text: string): Date => {
  // Postgres may write an offset of hours alone, which Date does not read.
  const date = new Date(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'));
  if (Number.isNaN(date.getTime())) throw new RangeError(`not a time: ${text.slice(0, 40)}`);
  return date;
};
