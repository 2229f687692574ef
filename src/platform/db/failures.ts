import pg from 'pg';

const CODES = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EAI_AGAIN'],
  ...['57P01', '57P02', '57P03', '53300'],
  // Only standbys refuse to write, such as a primary after a failover.
  '25006',
]);
const MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Cannot use a pool after calling end)/;

/**
 * Returns true if the error means that the database is down, starting, a standby or out of connections. The request can
 * be retried.
 */
export const isDatabaseAway = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (code.startsWith('08') && code.length === 5) return true;
  // Errors of a connecting socket name the system call. A missing file has the same code but another cause.
  if (code === 'ENOENT') return 'syscall' in error && error.syscall === 'connect';
  // A FATAL error ends the connection or refuses it.
  return CODES.has(code) || MESSAGES.test(error.message) || ('severity' in error && error.severity === 'FATAL');
};

/** Returns true if the error came from the database or the connection to it. The transaction is lost. */
export const isDatabaseError = (error: unknown): boolean => error instanceof pg.DatabaseError || isDatabaseAway(error);

/**
 * SQLSTATE classes about the server or other transactions: resources, operators (also `statement_timeout`), conflicts,
 * idle timeouts, and locks that were not free in time.
 */
const RETRIABLE = /^(?:(?:53|57|40)...|25P03|55P03)$/;

/**
 * Returns true if the statement may succeed when it is retried: the database is away or out of resources, or another
 * transaction was in the way. False if the statement or its data are wrong.
 */
export const isTransient = (error: unknown): boolean =>
  isDatabaseAway(error) ||
  (error instanceof Error && 'code' in error && typeof error.code === 'string' && RETRIABLE.test(error.code));

/**
 * Returns true if the transaction lost against another one: a serialization failure, a deadlock, or a row that it refers
 * to was deleted. Retry it.
 */
export const isConflict = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === '40001' || error.code === '40P01' || isRowGone(error));

/** Returns true if a statement refers to a row that does not exist. Another transaction may have deleted it just now. */
export const isRowGone = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '23503';

/** Returns the name of the constraint or unique index that the statement violated, or null for any other error. */
export const brokenConstraint = (error: unknown): string | null =>
  (error instanceof pg.DatabaseError && error.constraint) || null;
