import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// Debian's python3-gitlab; without it the test is skipped, and counted as such.

const run = promisify(execFile);
const PYTHON = '/usr/bin/python3';
const version = await run(PYTHON, ['-c', 'import gitlab; print(gitlab.__version__)']).then(
  ({ stdout }) => stdout.trim(),
  () => null,
);

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
beforeAll(() => {
  front.target = app().hub.url;
});
afterAll(() => front.close());

describe('python-gitlab', () => {
  it.skipIf(version === null)(
    'creates, reads, lists, changes and deletes, exports and imports, and shows errors',
    async () => {
      const owner = await app().make.user();
      const other = await app().make.user();
      const script = join(import.meta.dirname, 'python_gitlab.py');
      const args = [script, front.url, await app().tokenOf(owner), String(other.id)];
      const { stdout } = await run(PYTHON, args, { env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' } });
      expect(stdout.trim()).toBe('ok');
    },
  );

  it.skipIf(version === null)('makes, finds, changes and removes users, and notes custom attributes', async () => {
    const group = await app().make.group();
    const project = await app().make.project();
    const script = join(import.meta.dirname, 'python_gitlab_users.py');
    const args = [script, front.url, await app().tokenOf(app().root), String(group.id), String(project.id)];
    const { stdout } = await run(PYTHON, args, { env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' } });
    expect(stdout.trim()).toBe('ok');
  });
});
