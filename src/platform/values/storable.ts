/** Returns whether Postgres can store the text: it contains neither NUL nor a lone surrogate. */
export const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed();
