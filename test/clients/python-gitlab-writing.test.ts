import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
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

describe('python-gitlab', () => {
  it.skipIf(!isThere)('commits, writes files, picks, reverts and tags', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const script = join(import.meta.dirname, 'python_gitlab_writing.py');
    const args = [script, front.url, await app().tokenOf(owner), String(project.id)];
    const { stdout } = await run(PYTHON, args, { env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' } });
    expect(stdout.trim()).toBe('ok');
  });
});
