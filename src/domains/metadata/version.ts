import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import manifest from '../../../package.json' with { type: 'json' };

/** Semantic, beginning with 17: tools switch features on it. */
export const VERSION: string = manifest.version;

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const run = promisify(execFile);

let revision: Promise<string> | null = null;

/** The commit that runs, abbreviated; `unknown` outside a checkout. Looked up once. */
export const getRevision = (): Promise<string> => {
  revision ??= readRevision();
  return revision;
};

const readRevision = async (): Promise<string> => {
  // Without this git would look further up, and find a checkout of something else.
  if (!existsSync(`${ROOT}.git`)) return 'unknown';
  try {
    const { stdout } = await run('git', ['-c', 'safe.directory=*', 'rev-parse', '--short=11', 'HEAD'], {
      cwd: ROOT,
      timeout: 5_000,
    });
    return stdout.trim() || 'unknown';
  } catch {
    // No git, or no commit yet: the version says enough.
    return 'unknown';
  }
};
