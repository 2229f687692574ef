/** SQLSTATE classes that speak of the connection or the server, not of what was asked: 08, 53, 57, and conflicts (40). */
const STATES = /^(08|53|57|40|25P03)/;
const CODES = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOENT', 'EAI_AGAIN']);
const MESSAGES =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/;

/** Whether the failure is the database's being away, rather than a fault of the statement. */
export const isUnavailable = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : null;
  return code === null ? MESSAGES.test(error.message) : CODES.has(code) || (code.length === 5 && STATES.test(code));
};
