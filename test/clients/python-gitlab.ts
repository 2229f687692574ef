import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const PYTHON = '/usr/bin/python3';

/** Whether there is Debian's python3-gitlab; tests without it are skipped, and counted as such. */
export const hasPythonGitlab: boolean = await run(PYTHON, ['-c', 'import gitlab']).then(
  () => true,
  () => false,
);

/** What a script of this folder printed; it says "ok" last. */
export const runPython = async (script: string, ...args: readonly string[]): Promise<string> => {
  const env = { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' };
  const { stdout } = await run(PYTHON, [join(import.meta.dirname, script), ...args], { env });
  return stdout.trim();
};
