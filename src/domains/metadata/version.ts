import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import manifest from '../../../package.json' with { type: 'json' };

/** The semantic version. It begins with 17 because tools enable features by it. */
export const VERSION: string = manifest.version;

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const run = promisify(execFile);

let revision: Promise<string> | null = null;

/** Returns the abbreviated commit that runs, or `unknown` outside a checkout. Reads it once. */
export const getRevision = (): Promise<string> => {
  revision ??= readRevision();
  return revision;
};

const readRevision = async (): Promise<string> => {
  // Without this check git would search the parent directories and find an unrelated checkout.
  if (!existsSync(`${ROOT}.git`)) return 'unknown';
  try {
    const { stdout } = await run('git', ['-c', 'safe.directory=*', 'rev-parse', '--short=11', 'HEAD'], {
      cwd: ROOT,
      timeout: 5_000,
    });
    return stdout.trim() || 'unknown';
  } catch {
    // Git is missing or there is no commit yet.
    return 'unknown';
  }
};
