import { startHub } from '#app/build.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';

// A hub for tests to kill, configured by its environment. Prints the id that locks its jobs.
const config = readConfig([], process.env);
const hub = await startHub({ config, log: createLogger(config.logLevel) });
console.log(hub.services.processId);
