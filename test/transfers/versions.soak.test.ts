import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { readTree } from './archive.ts';
import { downloadExport, importArchive } from './support.ts';

const app = useApp();

describe('the versions of a merge request', () => {
  it('arrive with the project: the newest with its files, the earlier ones computed from the repository', async () => {
    const { root } = app();
    const as = app().as(root);
    const project = await app().make.project({ initialize_with_readme: true }, root);
    const path = `/projects/${project.id}`;
    const commit = async (file_path: string, start?: string) => {
      const answer = await as.post(`${path}/repository/commits`, {
        branch: 'topic',
        ...(start ? { start_branch: start } : {}),
        commit_message: `Add ${file_path}`,
        actions: [{ action: 'create', file_path, content: `${file_path}\n` }],
      });
      expect(answer.status).toBe(201);
    };
    await commit('one.txt', 'main');
    const made = await as.post(`${path}/merge_requests`, {
      source_branch: 'topic',
      target_branch: 'main',
      title: 'Add',
    });
    expect(made.status).toBe(201);
    await app().settle();
    await commit('two.txt');
    await app().settle();

    const { bytes } = await downloadExport(app(), root, project.id);
    const { merge_requests } = await readTree(bytes);
    expect(merge_requests).toMatchObject([
      {
        merge_request_diff: { real_size: '2', merge_request_diff_files: [{}, {}] },
        merge_request_diffs: [{ state: 'without_files', real_size: '1', merge_request_diff_commits: [{}] }],
      },
    ]);
    const started = await importArchive(app(), root, bytes, { path: 'with-versions' });
    expect(started.status).toBe(201);
    await app().settle();
    const versionsOf = async (id: number) => {
      const at = `/projects/${id}/merge_requests/1/versions`;
      const all: { id: number }[] = (await as.get(at)).body;
      return Promise.all(all.map(async (version) => (await as.get(`${at}/${version.id}`)).body));
    };
    const [before, after] = [await versionsOf(project.id), await versionsOf(started.body.id)];
    expect(after.map(({ state }) => state)).toEqual(['collected', 'without_files']);
    const parts = (versions: typeof before) =>
      versions.map(({ head_commit_sha, base_commit_sha, start_commit_sha, real_size, diffs, commits }) => ({
        ...{ head_commit_sha, base_commit_sha, start_commit_sha, real_size, diffs },
        commits: commits.map(({ id, message }: { id: string; message: string }) => [id, message]),
      }));
    expect(parts(after)).toEqual(parts(before));
  });
});
