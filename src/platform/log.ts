import { type Logger, pino } from 'pino';

export type { Logger } from 'pino';

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Structured logs on standard error, one JSON object a line; whatever carries a secret is replaced before it is written. */
export const createLogger = (level: LogLevel): Logger =>
  pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
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
    pino.destination({ dest: 2, sync: true }),
  );
