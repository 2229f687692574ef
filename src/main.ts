import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// glibc keeps freed buffers for the process unless it is told at its start to map each large one by itself: half a gigabyte
// stayed behind after a busy time (docs/reliability.md). Other C libraries ignore this. The process id remains the same.
if (process.platform === 'linux' && process.env.MALLOC_MMAP_THRESHOLD_ === undefined) {
  const args = [process.execPath, ...process.execArgv, import.meta.filename, ...process.argv.slice(2)];
  const limits = { MALLOC_MMAP_THRESHOLD_: '131072', MALLOC_TRIM_THRESHOLD_: '131072', MALLOC_ARENA_MAX: '2' };
  process.execve?.(process.execPath, args, { ...process.env, ...limits });
}

// Before anything else is loaded: what was compiled and stripped of types once need not be again, which is a third of a
// start. Kept beside the packages, so that `npm ci` clears it; where that cannot be written it is simply done without.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/millrace'));

const { ConfigError } = await import('#platform/config.ts');
const { serve } = await import('./app/serve.ts');

serve().catch((error: unknown) => {
  if (error instanceof ConfigError) console.error(`${error.message}\nSee npm start -- --help.`);
  else console.error(error);
  process.exit(1);
});
