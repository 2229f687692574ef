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
  it.skipIf(version === null)('walks branches, their protection, and statuses of commits', async () => {
    const owner = await app().make.user();
    const developer = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    await app().make.projectMember(project, developer, 30);
    const script = join(import.meta.dirname, 'python_gitlab_branches.py');
    const tokens = [await app().tokenOf(owner), await app().tokenOf(developer), await app().tokenOf(app().root)];
    const args = [script, front.url, ...tokens, project.path_with_namespace, String(developer.id)];
    const { stdout } = await run(PYTHON, args, { env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' } });
    expect(stdout.trim()).toBe('ok');
    await app().settle();
    const { body } = await app().as(owner).get(`/projects/${project.id}/repository/branches`);
    expect(body.map(({ name }: { name: string }) => name)).toEqual(['kept/1', 'main']);
  });
});
