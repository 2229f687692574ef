import { afterAll, beforeAll, expect, it } from 'vitest';
import { ADMIN_TOKEN, useApp } from '../support/app.ts';
import { startFront } from './external.ts';
import { hasPythonGitlab, runPython } from './python-gitlab.ts';

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
beforeAll(() => {
  front.target = app().hub.url;
});
afterAll(() => front.close());

it.skipIf(!hasPythonGitlab)(
  'python-gitlab pages through lists of projects, stars them and manages topics',
  async () => {
    const args = [front.url, await app().tokenOf(await app().make.user()), ADMIN_TOKEN];
    expect(await runPython('python_gitlab_projects.py', ...args)).toBe('ok');
  },
);
