import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const PYTHON = '/usr/bin/python3';

/** True if Debian's python3-gitlab is installed. Tests that need it are reported as skipped otherwise. */
export const hasPythonGitlab: boolean = await run(PYTHON, ['-c', 'import gitlab']).then(
  () => true,
  () => false,
);

/** Runs a script of this folder and returns its output. The script prints "ok" at the end. */
export const runPython = async (script: string, ...args: readonly string[]): Promise<string> => {
  const env = { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' };
  const { stdout } = await run(PYTHON, [join(import.meta.dirname, script), ...args], { env });
  return stdout.trim();
};
