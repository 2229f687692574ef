import { expect, it } from 'vitest';
import { commit, lines } from '../notes/support.ts';
import { useApp } from '../support/app.ts';
import { pushCommits } from '../support/commits.ts';
import { downloadExport, importArchive } from './support.ts';

const app = useApp();

interface ShownNote {
  readonly body: string;
  readonly system: boolean;
  readonly position: { readonly new_line: number | null; readonly head_sha: string } | null;
}

it('the review of a merge request goes on in the copy of its project', async () => {
  const { root, as, make } = app();
  // The address by which an import knows them again.
  const ada = await make.user({ username: 'ada-of-reviews', public_email: 'ada-of-reviews@example.com' });
  const project = await make.project({ initialize_with_readme: true }, root);
  await make.projectMember(project, ada, 30);
  await pushCommits(app(), project, root, [
    { branch: 'main', files: { 'a.txt': lines(20) } },
    { branch: 'feature', from: 'main', files: { 'a.txt': lines(20, { 10: 'ten', 15: 'fifteen' }) } },
  ]);
  const path = `/projects/${project.id}`;
  const owner = as(root);
  const branches = { source_branch: 'feature', target_branch: 'main', title: 'Improve a file' };
  expect((await owner.post(`${path}/merge_requests`, { ...branches, reviewer_ids: [ada.id] })).status).toBe(201);
  await app().settle();
  const at = `${path}/merge_requests/1`;
  const { diff_refs, sha } = (await owner.get(at)).body;
  const on = (new_line: number) => ({ position_type: 'text', ...diff_refs, new_path: 'a.txt', new_line });
  const say = (body: string, new_line: number) => as(ada).post(`${at}/discussions`, { body, position: on(new_line) });
  expect((await say('Why ten?', 10)).status).toBe(201);
  expect((await say('```suggestion\nFIFTEEN\n```', 15)).status).toBe(201);
  expect((await as(ada).post(`${at}/approve`)).status).toBe(201);
  await app().settle();

  const { bytes } = await downloadExport(app(), root, project.id);
  const started = await importArchive(app(), root, bytes, { path: 'reviewed' });
  expect(started.status).toBe(201);
  await app().settle();
  const copy = `/projects/${started.body.id}`;
  const copied = `${copy}/merge_requests/1`;
  expect((await owner.get(`${copy}/import`)).body).toMatchObject({ import_status: 'finished', failed_relations: [] });
  const comments = async (): Promise<ShownNote[]> =>
    (await owner.get(`${copied}/discussions`)).body
      .flatMap(({ notes }: { readonly notes: readonly ShownNote[] }) => notes)
      .filter(({ system }: ShownNote) => !system);
  expect(await comments()).toMatchObject([
    { body: 'Why ten?', author: { id: ada.id }, position: { new_line: 10, head_sha: sha }, resolved: false },
    {
      position: { new_line: 15, head_sha: sha },
      suggestions: [{ from_content: 'fifteen\n', to_content: 'FIFTEEN\n' }],
    },
  ]);
  expect((await owner.get(`${copied}/approvals`)).body.approved_by).toMatchObject([{ user: { id: ada.id } }]);
  expect((await owner.get(`${copied}/reviewers`)).body).toMatchObject([{ user: { id: ada.id }, state: 'approved' }]);
  expect((await owner.get(`${copied}/versions`)).body).toMatchObject([{ head_commit_sha: sha, state: 'collected' }]);

  // A push above the lines moves the comments, and takes the approval away.
  const content = `zero\n${lines(20, { 10: 'ten', 15: 'fifteen' })}`;
  const next = await commit(owner, copy, 'feature', [{ action: 'update', file_path: 'a.txt', content }]);
  await app().settle();
  const [why, suggestion] = await comments();
  expect(why?.position).toMatchObject({ new_line: 11, head_sha: next });
  expect((await owner.get(`${copied}/approvals`)).body.approved_by).toEqual([]);
  expect(suggestion).toMatchObject({ position: { new_line: 16 }, suggestions: [{ appliable: true }] });
  const [{ suggestions }] = (await owner.get(`${copied}/discussions`)).body
    .flatMap(({ notes }: { readonly notes: readonly { readonly suggestions: readonly { id: number }[] }[] }) => notes)
    .filter((note: { readonly suggestions: readonly unknown[] }) => note.suggestions.length > 0);
  expect((await owner.put(`/suggestions/${suggestions[0].id}/apply`)).status).toBe(200);
  const applied = await owner.get(`${copy}/repository/files/a.txt/raw?ref=feature`);
  expect(String(applied.body)).toBe(`zero\n${lines(20, { 10: 'ten', 15: 'FIFTEEN' })}`);
  await app().settle();
  expect((await owner.put(`${copied}/merge`)).body.state).toBe('merged');
});
