/** Returns whether the path stays below the folder that it starts from, in the way that existing servers check it. */
export const isInnerPath = (path: string): boolean => !path.startsWith('/') && !path.includes('..');

/** Completes the name of the field. Clients know this message. */
export const NO_INNER_PATH = 'cannot include leading slash or directory traversal.';
