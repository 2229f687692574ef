import { startHub } from '#app/build.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';

// A web process of the hub that dies during the first push, before git may move a ref or right after it has:
// `node push-process.ts <databaseUrl> <dataDir> before|after`
const [databaseUrl = '', dataDir = '', moment = ''] = process.argv.slice(2);
const config = readConfig([], {
  DATABASE_URL: databaseUrl,
  MILLRACE_DATA_DIR: dataDir,
  MILLRACE_PORT: '0',
  MILLRACE_ROLE: 'web',
  MILLRACE_LOG_LEVEL: 'error',
});
const hub = await startHub({ config, log: createLogger('error') });
const { git } = hub.services;
const { serve } = git;
const die = () => process.kill(process.pid, 'SIGKILL');
const never = () => new Promise<never>(() => {});

Object.assign(git, {
  serve: async (...[path, service, body, options = {}]: Parameters<typeof serve>) => {
    const { onReceived } = options;
    if (service === 'git-upload-pack' || !onReceived) return serve(path, service, body, options);
    if (moment === 'before') {
      return serve(path, service, body, {
        ...options,
        onReceived: async (objects) => {
          await onReceived(objects);
          die();
          return never();
        },
      });
    }
    const served = await serve(path, service, body, options);
    const done = served.done.then(() => {
      die();
      return never();
    });
    return { stream: served.stream, done };
  },
});
console.log(JSON.stringify({ url: hub.url, processId: hub.services.processId }));
