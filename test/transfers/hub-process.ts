import { startHub } from '#app/build.ts';
import { readConfig } from '#platform/config.ts';
import { createLogger } from '#platform/log.ts';

// A hub to be killed, configured by its environment. Prints the id under which its jobs are locked.
const config = readConfig([], process.env);
const hub = await startHub({ config, log: createLogger(config.logLevel) });
console.log(hub.services.processId);
