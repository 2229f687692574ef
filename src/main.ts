import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// Node reuses compiled code and stripped types, which saves a third of the startup time. The cache is beside the
// packages, so `npm ci` clears it. If the folder is not writable, there is no cache.
const CACHE = join(import.meta.dirname, '../node_modules/.cache/millrace');

// Without these settings glibc keeps freed buffers for the process: half a gigabyte stayed behind after a busy period
// (docs/reliability.md). They make it map each large buffer separately, and it reads them only at start. Other C
// libraries ignore them. execve keeps the process id.
if (process.platform === 'linux' && process.env.MALLOC_MMAP_THRESHOLD_ === undefined) {
  const args = [process.execPath, ...process.execArgv, import.meta.filename, ...process.argv.slice(2)];
  const limits = { MALLOC_MMAP_THRESHOLD_: '131072', MALLOC_TRIM_THRESHOLD_: '131072', MALLOC_ARENA_MAX: '2' };
  process.execve?.(process.execPath, args, { NODE_COMPILE_CACHE: CACHE, ...process.env, ...limits });
}

// Must run before anything else is loaded. NODE_COMPILE_CACHE also covers this file, so the compiler that strips types
// is not loaded at all.
enableCompileCache(CACHE);

const { ConfigError } = await import('#platform/config.ts');
const { serve } = await import('./app/serve.ts');

serve().catch((error: unknown) => {
  if (error instanceof ConfigError) console.error(`${error.message}\nSee npm start -- --help.`);
  else console.error(error);
  process.exit(1);
});
