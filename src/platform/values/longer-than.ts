/**
 * Whether a text has more than `max` characters. A character beyond U+FFFF, such as an emoji, counts once, as it does for
 * people and for Postgres, although JavaScript's `length` counts it twice.
 */
export const isLongerThan = (text: string, max: number): boolean =>
  text.length > max && (text.length > 2 * max || [...text].length > max);
