/** Returns the pattern of `like` and `ilike` for texts that contain the term. Escapes special characters. */
export const containing = (term: string): string => `%${term.replace(/[\\%_]/g, '\\$&')}%`;
