import { type DestinationStream, type Logger, pino } from 'pino';
import { sourceStack } from './process/source-stack.ts';

export type { Logger } from 'pino';

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Creates a logger that writes one JSON object per line to standard error. Fields with secrets are redacted. */
export const createLogger = (
  level: LogLevel,
  destination: DestinationStream = pino.destination({ dest: 2, sync: true }),
): Logger =>
  pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: describeError, error: describeError },
      redact: {
        paths: [
          'token',
          'password',
          'secret',
          'authorization',
          'cookie',
          '*.token',
          '*.password',
          '*.secret',
          '*.authorization',
          '*.cookie',
          '*["private-token"]',
        ],
        censor: '[REDACTED]',
      },
    },
    destination,
  );

const MAX_CAUSES = 5;

/**
 * Returns only those parts of an error that are safe to log. Postgres errors contain the connection with its password
 * and key, and the values of the row that failed. Client errors contain the whole request.
 */
const describeError = (error: unknown, depth = 0): unknown => {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  return {
    type: name,
    message,
    stack: stack && sourceStack(stack),
    ...('code' in error ? { code: error.code } : {}),
    ...('severity' in error ? { severity: error.severity } : {}),
    ...(cause !== undefined && depth < MAX_CAUSES ? { cause: describeError(cause, depth + 1) } : {}),
    ...(error instanceof AggregateError && depth < MAX_CAUSES
      ? { errors: error.errors.slice(0, MAX_CAUSES).map((each) => describeError(each, depth + 1)) }
      : {}),
  };
};
