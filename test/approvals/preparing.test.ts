import { expect, it } from 'vitest';
import { refreshNow } from '#domains/merge-requests/versions/refresh.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { pushCommits, README } from '../support/commits.ts';
import { setSettings } from './support.ts';

// Without a worker, a merge request stays as it was opened.
const app = useApp({ env: { MILLRACE_ROLE: 'web' } });

const openReview = async () => {
  const { path, project, people } = await makeScene(app());
  const [ada, bob] = await app().make.users(2);
  if (!(ada && bob)) throw new Error('there are too few users');
  await app().make.projectMembers(project, [
    [ada, 30],
    [bob, 30],
  ]);
  await pushCommits(app(), project, people.owner, [README]);
  const [head] = await pushCommits(app(), project, ada, [
    { branch: 'feature', from: 'main', files: { 'new.txt': 'text\n' } },
  ]);
  const made = await app()
    .as(people.owner)
    .post(`${path}/merge_requests`, { source_branch: 'feature', target_branch: 'main', title: 'Add a file' });
  expect(made).toMatchObject({ status: 201, body: { detailed_merge_status: 'preparing', sha: head } });
  return { project, head, id: made.body.id as number, at: `${path}/merge_requests/1`, ada, bob };
};

it('keeps an approval that is given before the merge request is prepared', async () => {
  const { head, id, at, bob } = await openReview();
  expect(await app().as(bob).post(`${at}/approve`, { sha: head })).toMatchObject({ status: 201 });
  await refreshNow(app().context(), id);
  expect((await app().as(bob).get(`${at}/approvals`)).body).toMatchObject({ approved_by: [{ user: { id: bob.id } }] });
});

it('knows who committed before the merge request is prepared', async () => {
  const { project, id, at, ada } = await openReview();
  await setSettings(app(), project.id, { allow_committer_approval: false, retain_approvals_on_push: true });
  expect((await app().as(ada).post(`${at}/approve`)).status).toBe(401);
  await refreshNow(app().context(), id);
  expect((await app().as(ada).get(`${at}/approvals`)).body).toMatchObject({ approved_by: [] });
});
