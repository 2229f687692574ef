import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';
import { startFront } from './external.ts';
import { hasPythonGitlab, runPython } from './python-gitlab.ts';

// Unmodified clients name version 4. The front forwards them to version 5, as docs/version-5.md says.

const front = await startFront((path) => path.replace(/^\/api\/v4\//, '/api/v5/'));
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
let owner: TestUser;
let project: TestProject;
let api: InstanceType<typeof Gitlab>;

beforeAll(async () => {
  front.target = app().hub.url;
  owner = await app().make.user();
  project = await app().make.project({ visibility: 'private', initialize_with_readme: true }, owner);
  const [client, at] = [app().as(owner), `/projects/${project.id}`];
  for (const name of ['one', 'two']) await client.post(`${at}/labels`, { name, color: '#112233' });
  await client.post('/user/runners', { runner_type: 'project_type', project_id: project.id });
  await client.post(`${at}/repository/commits`, {
    branch: 'feature',
    start_branch: 'main',
    commit_message: 'Add a file',
    actions: [{ action: 'create', file_path: 'a.txt', content: 'a\n' }],
  });
  await client.post(`${at}/merge_requests`, { source_branch: 'feature', target_branch: 'main', title: 'A' });
  await app().settle();
  api = new Gitlab({ host: front.url, token: await app().tokenOf(owner) });
});
afterAll(() => front.close());

describe('a client of version 4 in version 5', () => {
  it.skipIf(!hasPythonGitlab)('python-gitlab breaks only where the page says so', async () => {
    const args = [front.url, await app().tokenOf(owner), String(project.id)];
    expect(await runPython('python_gitlab_version_5.py', ...args)).toBe('ok');
  });

  it('gitbeaker breaks only where the page says so', async () => {
    const labels = await api.ProjectLabels.all(project.id, { perPage: 1 });
    expect(labels.map(({ name }) => name)).toEqual(['one', 'two']);
    // Links to further pages name version 5.
    expect(front.paths.some((path) => path.startsWith('/api/v5/'))).toBe(true);
    expect(await api.Projects.edit(project.id, { topics: ['mills'] })).toMatchObject({ topics: ['mills'] });
    const shown = await api.Projects.show(project.id);
    expect(shown).not.toHaveProperty('tag_list');
    expect(shown).not.toHaveProperty('container_registry_enabled');
    const [request] = await api.MergeRequests.all({ projectId: project.id });
    expect(request).toMatchObject({ detailed_merge_status: 'mergeable', iid: 1 });
    expect(request).not.toHaveProperty('merge_status');

    const says = (text: string) => ({ cause: { description: expect.stringContaining(text) } });
    const old = { topics: ['mills'], tagList: ['a'] };
    await expect(api.Projects.edit(project.id, old)).rejects.toMatchObject(says('use `topics`'));
    await expect(api.MergeRequests.showChanges(project.id, 1)).rejects.toMatchObject(says('/diffs'));
    expect(await api.MergeRequests.allDiffs(project.id, 1)).toHaveLength(1);

    const [runner] = await api.Runners.all({ projectId: project.id });
    expect(runner).toMatchObject({ status: 'not_connected' });
    expect(runner).not.toHaveProperty('active');
    await expect(api.Runners.edit(runner?.id ?? 0, { active: false })).rejects.toMatchObject(says('use `paused`'));
    expect(await api.Runners.edit(runner?.id ?? 0, { paused: false })).toMatchObject({ paused: false });
  });
});
