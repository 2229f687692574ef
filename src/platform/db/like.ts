/** The pattern of `like` and `ilike` for texts that hold the term, whatever signs are in it. */
export const containing = (term: string): string => `%${term.replace(/[\\%_]/g, '\\$&')}%`;
