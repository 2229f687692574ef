const TRUE = new Set(['true', '1', 't', 'on', 'yes', 'y']);
const FALSE = new Set(['false', '0', 'f', 'off', 'no', 'n']);

/** Reads `true`, `1`, `t`, `on`, `yes`, `y` and their opposites, case-insensitive. Returns null for any other text. */
export const readBoolean = (text: string): boolean | null => {
  const word = text.toLowerCase();
  return TRUE.has(word) ? true : FALSE.has(word) ? false : null;
};
