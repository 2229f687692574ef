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
  it.skipIf(!hasPythonGitlab)('manages branches, protected branches and commit statuses', async () => {
    const owner = await app().make.user();
    const developer = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    await app().make.projectMember(project, developer, 30);
    const tokens = [await app().tokenOf(owner), await app().tokenOf(developer), await app().tokenOf(app().root)];
    const args = [front.url, ...tokens, project.path_with_namespace, String(developer.id)];
    expect(await runPython('python_gitlab_branches.py', ...args)).toBe('ok');
    await app().settle();
    const { body } = await app().as(owner).get(`/projects/${project.id}/repository/branches`);
    expect(body.map(({ name }: { name: string }) => name)).toEqual(['kept/1', 'main']);
  });
});
