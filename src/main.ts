import { enableCompileCache, flushCompileCache, registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

// Node reuses compiled code and stripped types, which saves a third of the startup time. The cache is beside the
// packages, so `npm ci` clears it. If the folder is not writable, there is no cache.
const CACHE = join(import.meta.dirname, '../node_modules/.cache/millrace');

// Must run before anything else is loaded. NODE_COMPILE_CACHE also covers this file, so the compiler that strips types
// is not loaded at all.
enableCompileCache(CACHE);

// The hub starts in two steps. The second step replaces the first and keeps its process id. The first bundles the
// sources, unless a bundle of them exists, and gives up the memory that this takes. It also sets what glibc reads only
// at start: otherwise glibc keeps freed buffers for the process, and half a gigabyte stayed behind after a busy period
// (docs/reliability.md). Now it maps each large buffer separately. Other C libraries ignore these variables.
if (process.platform === 'linux' && process.env.MALLOC_MMAP_THRESHOLD_ === undefined) {
  const args = [process.execPath, ...process.execArgv, import.meta.filename, ...process.argv.slice(2)];
  const limits = { MALLOC_MMAP_THRESHOLD_: '131072', MALLOC_TRIM_THRESHOLD_: '131072', MALLOC_ARENA_MAX: '2' };
  const bundle = process.env.MILLRACE_BUNDLE ?? (await bundled());
  flushCompileCache();
  process.execve?.(process.execPath, args, {
    NODE_COMPILE_CACHE: CACHE,
    ...process.env,
    ...limits,
    MILLRACE_BUNDLE: bundle,
  });
}

/** The bundle to run, or `off` to run the sources: by choice, or because no bundle can be written. */
async function bundled(): Promise<string> {
  const { bundleHub } = await import('./app/bundle.ts');
  return bundleHub(CACHE).catch((error: unknown) => {
    console.error('The hub starts from its sources, which takes longer, because they could not be bundled:', error);
    return 'off';
  });
}

const { MILLRACE_BUNDLE: bundle = 'off' } = process.env;
delete process.env.MILLRACE_BUNDLE;
if (bundle === 'off') resolveSources();
type Hub = typeof import('./app/serve.ts');
const { serve }: Hub = bundle === 'off' ? await import('./app/serve.ts') : await import(pathToFileURL(bundle).href);
await serve();

/**
 * Node looks for package.json files and symbolic links on the way to each of our modules. Their addresses are known, which
 * saves a fifth of the startup time.
 */
function resolveSources(): void {
  const sources = new URL('.', import.meta.url).href;
  const found = (url: string) => ({ url, format: 'module-typescript', shortCircuit: true });
  registerHooks({
    resolve: (specifier, context, next) => {
      const isOurs = specifier.endsWith('.ts') && context.parentURL?.startsWith(sources) === true;
      if (isOurs && specifier.startsWith('#')) return found(sources + specifier.slice(1));
      if (isOurs && specifier.startsWith('.')) return found(new URL(specifier, context.parentURL).href);
      return next(specifier, context);
    },
  });
}
