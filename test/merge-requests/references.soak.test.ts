import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

const app = useApp();

/** Creates a project with a branch `feature`, whose one commit has the message. */
const makeBranches = async (message = 'Add a file') => {
  const scene = await makeScene(app(), { initialize_with_readme: true });
  const answer = await scene.owner.post(`${scene.path}/repository/commits`, {
    branch: 'feature',
    start_branch: 'main',
    commit_message: message,
    actions: [{ action: 'create', file_path: 'new.txt', content: 'text\n' }],
  });
  expect(answer.status).toBe(201);
  return scene;
};

const open = async (client: Client, path: string, attributes: Record<string, unknown> = {}) => {
  const answer = await client.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Add a file',
    ...attributes,
  });
  expect(answer).toMatchObject({ status: 201 });
  await app().settle();
  return `${path}/merge_requests/${answer.body.iid}`;
};

const issue = async (client: Client, path: string, attributes: Record<string, unknown> = {}): Promise<number> => {
  const answer = await client.post(`${path}/issues`, { title: 'A bug', ...attributes });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body.iid;
};

const iids = async (client: Client, path: string) => {
  const answer = await client.get(path);
  expect(answer.status).toBe(200);
  return answer.body.map(({ iid, project_id }: { iid: number; project_id: number }) => `${project_id}#${iid}`);
};

describe('the issues of a merge request', () => {
  it('are those that its texts and commits close, and all that they mention', async () => {
    const { owner, project, path } = await makeBranches('Add a file\n\nCloses #2');
    for (let i = 0; i < 4; i++) await issue(owner, path);
    const mr = await open(owner, path, { title: 'Fixes #1', description: 'See #3. Also `closes #3` #99.' });
    const of = (...numbers: number[]) => numbers.map((iid) => `${project.id}#${iid}`);
    expect(await iids(owner, `${mr}/closes_issues`)).toEqual(of(1, 2));
    await owner.post(`${mr}/notes`, { body: 'Like #4' });
    expect(await iids(owner, `${mr}/related_issues`)).toEqual(of(1, 3, 2, 4));
    expect(await iids(owner, `${mr}/related_issues?per_page=1&page=2`)).toEqual(of(3));
  });

  it('do not close when the target is not the default branch, or their project forbids it', async () => {
    const { owner, path } = await makeBranches('Closes #1');
    await issue(owner, path);
    await owner.post(`${path}/repository/branches`, { branch: 'next', ref: 'main' });
    const other = await open(owner, path, { target_branch: 'next', description: 'Closes #1' });
    expect(await iids(owner, `${other}/closes_issues`)).toEqual([]);
    expect(await iids(owner, `${other}/related_issues`)).toHaveLength(1);
    const mr = await open(owner, path);
    expect(await iids(owner, `${mr}/closes_issues`)).toHaveLength(1);
    await owner.put(path, { autoclose_referenced_issues: false });
    expect(await iids(owner, `${mr}/closes_issues`)).toEqual([]);
  });

  it('are of other projects too, if the caller can see them', async () => {
    const { owner, reporter, guest, stranger, path } = await makeBranches();
    const secret = await makeScene(app());
    await app().make.projectMember(secret.project, (await owner.get('/user')).body, 30);
    await issue(secret.owner, secret.path);
    await issue(owner, path, { confidential: true });
    const full = secret.project.path_with_namespace;
    const mr = await open(owner, path, { description: `Closes ${full.toUpperCase()}#1 and #1` });
    expect(await iids(owner, `${mr}/closes_issues`)).toHaveLength(2);
    expect(await iids(reporter, `${mr}/closes_issues`)).toHaveLength(1);
    expect(await iids(reporter, `${mr}/related_issues`)).toHaveLength(1);
    for (const list of ['closes_issues', 'related_issues']) {
      expect((await guest.get(`${mr}/${list}`)).status).toBe(403);
      expect((await stranger.get(`${mr}/${list}`)).status).toBe(404);
    }
  });
});
