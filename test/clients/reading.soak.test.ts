import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { startFront } from './external.ts';
import { hasPythonGitlab, runPython } from './python-gitlab.ts';

// Unmodified third-party clients read a repository.
// The test with python-gitlab is reported as skipped if Debian's python3-gitlab is not installed.

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
beforeAll(() => {
  front.target = app().hub.url;
});
afterAll(() => front.close());

/** Creates a project with two commits that are written directly to its repository. */
const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({}, owner);
  const { db, git } = app().hub.services;
  const row = await db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', project.id)
    .executeTakeFirstOrThrow();
  const ada = (day: number) => ({ name: 'Ada', email: 'ada@example.com', date: new Date(Date.UTC(2026, 0, day)) });
  const commit = (parent: string | null, message: string, files: Record<string, string>) =>
    git.commitFiles(row.disk_path, {
      branch: 'main',
      parent,
      message,
      author: ada(parent === null ? 1 : 2),
      committer: ada(parent === null ? 1 : 2),
      files: Object.entries(files).map(([path, content]) => ({
        action: parent === null ? 'create' : 'update',
        path,
        content,
      })),
    });
  const first = await commit(null, 'First', {
    'README.md': '# Hi\n',
    'docs/a.txt': 'one\n',
    'docs/b c.txt': 'three\n',
  });
  const second = await commit(first, 'Second', { 'docs/a.txt': 'one\ntwo\n' });
  await db.updateTable('projects').set({ empty_repo: false }).where('id', '=', project.id).execute();
  return { owner, project, first, second };
};

describe('reading a repository', () => {
  it.skipIf(!hasPythonGitlab)('works with python-gitlab', async () => {
    const { owner, project } = await setUp();
    const args = [front.url, await app().tokenOf(owner), project.path_with_namespace];
    expect(await runPython('python_gitlab_reading.py', ...args)).toBe('ok');
  });

  it('works with gitbeaker', async () => {
    const { owner, project, first, second } = await setUp();
    const { id } = project;
    const api = new Gitlab({ host: front.url, token: await app().tokenOf(owner) });
    const entries = await api.Repositories.allRepositoryTrees(id, { recursive: true });
    expect(entries.map(({ path }) => path)).toEqual(['docs', 'README.md', 'docs/a.txt', 'docs/b c.txt']);
    const file = await api.RepositoryFiles.show(id, 'docs/a.txt', 'main');
    expect(Buffer.from(file.content, 'base64').toString()).toBe('one\ntwo\n');
    expect(String(await api.RepositoryFiles.showRaw(id, 'docs/b c.txt', 'main'))).toBe('three\n');
    const blame = await api.RepositoryFiles.allFileBlames(id, 'docs/a.txt', 'main');
    expect(blame.map(({ lines }) => lines)).toEqual([['one'], ['two']]);
    expect((await api.Commits.all(id)).map(({ title }) => title)).toEqual(['Second', 'First']);
    expect(await api.Commits.show(id, second, { stats: true })).toMatchObject({ id: second, stats: { total: 1 } });
    expect(await api.Commits.showDiff(id, second)).toMatchObject([{ new_path: 'docs/a.txt' }]);
    expect(await api.Commits.allReferences(id, second)).toEqual([{ type: 'branch', name: 'main' }]);
    expect(await api.Commits.allMergeRequests(id, second)).toEqual([]);
    const comment = { path: 'docs/a.txt', line: 2, lineType: 'new' } as const;
    expect(await api.Commits.createComment(id, second, 'why?', comment)).toMatchObject({ note: 'why?', line: 2 });
    expect(await api.Commits.allComments(id, second)).toMatchObject([{ note: 'why?', path: 'docs/a.txt' }]);
    const compared = await api.Repositories.compare(id, first, 'main');
    expect(compared.commits).toMatchObject([{ id: second }]);
    expect(await api.Repositories.mergeBase(id, [first, 'main'])).toMatchObject({ id: first });
    expect(await api.Repositories.allContributors(id)).toMatchObject([{ name: 'Ada', commits: 2 }]);
    expect((await api.Repositories.showArchive(id, { fileType: 'zip', sha: 'main' })).size).toBeGreaterThan(100);
    const since = { from: first, date: '2026-03-04' };
    const changes = { notes: '## 1.0.0 (2026-03-04)\n\nNo changes.\n' };
    expect(await api.Repositories.showChangelog(id, '1.0.0', since)).toEqual(changes);
    expect(await api.Repositories.editChangelog(id, '1.0.0', { ...since, branch: 'main' })).toEqual(changes);
  });
});
