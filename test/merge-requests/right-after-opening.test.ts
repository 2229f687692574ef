import { expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { pushCommits } from '../support/commits.ts';

// Without a worker, no job creates the pipeline first.
const app = useApp({ env: { MILLRACE_ROLE: 'web' } });

const FILE = 'check: {script: [x], rules: [{if: $CI_PIPELINE_SOURCE == "merge_request_event"}]}\n';

const open = async () => {
  const { path, project, people, owner } = await makeScene(app());
  await pushCommits(app(), project, people.owner, [
    { branch: 'main', files: { '.gitlab-ci.yml': FILE } },
    { branch: 'feature', from: 'main', files: { 'new.txt': 'text\n' } },
  ]);
  const made = await owner.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Add a file',
  });
  expect(made.status).toBe(201);
  return { owner, at: `${path}/merge_requests/1` };
};

it('waits for the pipeline that a merge request is about to get', async () => {
  const { owner, at } = await open();
  expect(await owner.put(`${at}/merge`, { auto_merge: true })).toMatchObject({
    status: 200,
    body: { state: 'opened', merge_when_pipeline_succeeds: true, head_pipeline: { source: 'merge_request_event' } },
  });
  // Asking again creates no second one.
  await owner.put(`${at}/merge`, { auto_merge: true });
  expect((await owner.get(`${at}/pipelines`)).body).toHaveLength(1);
});

it('does not merge before that pipeline with /merge', async () => {
  const { owner, at } = await open();
  expect((await owner.post(`${at}/notes`, { body: '/merge' })).status).toBe(202);
  expect((await owner.get(at)).body).toMatchObject({ state: 'opened', merge_when_pipeline_succeeds: true });
});

it('gets a pipeline on request before it is prepared', async () => {
  const { owner, at } = await open();
  expect(await owner.post(`${at}/pipelines`)).toMatchObject({
    status: 200,
    body: { source: 'merge_request_event', status: 'pending' },
  });
});
