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
  it.skipIf(!hasPythonGitlab)('opens, reviews, merges and deletes merge requests', async () => {
    const [owner, reviewer] = [await app().make.user(), await app().make.user()];
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    await app().make.projectMember(project, reviewer, 40);
    const tokens = [await app().tokenOf(owner), await app().tokenOf(reviewer)];
    expect(await runPython('python_gitlab_merge_requests.py', front.url, ...tokens, String(project.id))).toBe('ok');
  });
});
