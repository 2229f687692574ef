/** SQLSTATE classes about the connection or the server rather than the statement: 08, 53, 57, and conflicts (40). */
const STATES = /^(08|53|57|40|25P03)/;
const CODES = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOENT', 'EAI_AGAIN']);
const MESSAGES =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/;

/** Returns true if the database was unavailable, rather than the statement wrong. */
export const isUnavailable = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : null;
  return code === null ? MESSAGES.test(error.message) : CODES.has(code) || (code.length === 5 && STATES.test(code));
};
