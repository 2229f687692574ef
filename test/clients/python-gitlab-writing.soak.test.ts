import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { startFront } from './external.ts';
import { hasPythonGitlab, runPython } from './python-gitlab.ts';

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
beforeAll(() => {
  front.target = app().hub.url;
});
afterAll(() => front.close());

describe('python-gitlab', () => {
  it.skipIf(!hasPythonGitlab)('commits, writes files, cherry-picks, reverts and tags', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const args = [front.url, await app().tokenOf(owner), String(project.id)];
    expect(await runPython('python_gitlab_writing.py', ...args)).toBe('ok');
  });
});
