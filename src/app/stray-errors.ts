import { Counter } from 'prom-client';
import type { Logger } from '#platform/log.ts';

const strayErrors = new Counter({
  name: 'millrace_stray_errors_total',
  help: 'Errors that no request, connection or job caught. Each is a fault of the hub: see the log.',
  labelNames: ['origin'],
});

/**
 * The last resort: an error that nothing caught is logged and counted, and the process goes on serving. Each one is a
 * fault to be mended where it arises. Why the process does not end: docs/decisions/0020-errors-that-nothing-catches.md.
 */
export const surviveStrayErrors = (log: Logger): void => {
  // Without a handler of their own, rejections that nobody handles come here too.
  process.on('uncaughtException', (error, origin) => {
    strayErrors.inc({ origin });
    log.fatal({ err: error, origin }, 'an error was caught by nothing; the process goes on');
  });
};
