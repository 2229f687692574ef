import pg from 'pg';

const CODES = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOENT', '57P01', '57P02', '57P03', '53300']);
const MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Cannot use a pool after calling end)/;

/** Whether it failed because the database is away, starting, or lets nobody in: the request may be sent again. */
export const isDatabaseAway = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (code.startsWith('08') && code.length === 5) return true;
  // Errors of a socket that is being connected name the call; a file that is absent is another thing.
  if (code === 'ENOENT') return 'syscall' in error && error.syscall === 'connect';
  // What is fatal to Postgres ends the connection or is said instead of making one.
  return CODES.has(code) || MESSAGES.test(error.message) || ('severity' in error && error.severity === 'FATAL');
};

/** The name of the unique index or other constraint that a statement failed at; null where it failed for another reason. */
export const brokenConstraint = (error: unknown): string | null =>
  (error instanceof pg.DatabaseError && error.constraint) || null;
