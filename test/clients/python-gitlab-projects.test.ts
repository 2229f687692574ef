import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ADMIN_TOKEN, useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// Debian's python3-gitlab; without it the test is skipped, and counted as such.

const run = promisify(execFile);
const PYTHON = '/usr/bin/python3';
const isThere = await run(PYTHON, ['-c', 'import gitlab']).then(
  () => true,
  () => false,
);

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
beforeAll(() => {
  front.target = app().hub.url;
});
afterAll(() => front.close());

it.skipIf(!isThere)('python-gitlab walks the lists of projects, stars them and keeps topics', async () => {
  const script = join(import.meta.dirname, 'python_gitlab_projects.py');
  const args = [script, front.url, await app().tokenOf(await app().make.user()), ADMIN_TOKEN];
  const { stdout } = await run(PYTHON, args, { env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' } });
  expect(stdout.trim()).toBe('ok');
});
