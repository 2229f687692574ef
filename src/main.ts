import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

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
