import { Counter } from 'prom-client';
import type { Logger } from '#platform/log.ts';

const strayErrors = new Counter({
  name: 'millrace_stray_errors_total',
  help: 'Errors that no request, connection or job caught. Each is a bug in the hub: see the log.',
  labelNames: ['origin'],
});

/**
 * The last resort: logs and counts errors that nothing caught, and keeps the process running. Each one is a bug to fix
 * where it occurs. docs/decisions/0020-errors-that-nothing-catches.md explains why the process does not exit.
 */
export const surviveStrayErrors = (log: Logger): void => {
  // Unhandled rejections arrive here too, because they have no handler of their own.
  process.on('uncaughtException', (error, origin) => {
    strayErrors.inc({ origin });
    log.fatal({ err: error, origin }, 'an error was not caught anywhere; the process keeps running');
  });
};
