/** Returns the `code` of an error of the system, such as `ENOENT`, or null. */
export const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : null);
