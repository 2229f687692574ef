import { expect } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import type { TestApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { pushCommits, README } from '../support/commits.ts';

/** Adds a file to a branch. Returns the id of the commit. */
export const commit = async (
  client: Client,
  project: string,
  branch: string,
  path: string,
  content = 'text\n',
): Promise<string> => {
  const answer = await client.post(`${project}/repository/commits`, {
    branch,
    commit_message: `Change ${path}`,
    actions: [{ action: 'create', file_path: path, content }],
  });
  expect(answer.status).toBe(201);
  return answer.body.id as string;
};

export const tipOf = async (client: Client, path: string, branch: string): Promise<string> =>
  (await client.get(`${path}/repository/branches/${branch}`)).body.commit?.id;

/** Creates a project with an open merge request of two commits, whose target has moved on since it was branched off. */
export const makeMergeRequest = async (
  app: TestApp,
  attributes: Record<string, unknown> = {},
  { moves = true, description = 'Why' } = {},
) => {
  const scene = await makeScene(app, attributes);
  const { owner, path, people, project } = scene;
  const [start, , head, other] = await pushCommits(app, project, people.owner, [
    README,
    { branch: 'feature', from: 'main', files: { 'one.txt': 'text\n' } },
    { branch: 'feature', files: { 'two.txt': 'text\n' } },
    ...(moves ? [{ branch: 'main', files: { 'other.txt': 'text\n' } }] : []),
  ]);
  const target = other ?? start;
  if (head === undefined || target === undefined) throw new Error('there are too few commits');
  const made = await owner.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Add two files',
    description,
  });
  expect(made.status).toBe(201);
  await app.settle();
  return { ...scene, at: `${path}/merge_requests/1`, head, target, id: made.body.id as number };
};

/** Forks the project as another user and opens a merge request from the fork, with one commit, to the main branch. */
export const makeMergeRequestFromFork = async (
  app: TestApp,
  contributor: Client,
  { path, project }: { readonly path: string; readonly project: { readonly id: number } },
  file: { readonly path: string; readonly content?: string } = { path: 'mine.txt' },
) => {
  const { body: fork } = await contributor.post(`${path}/fork`);
  await app.settle();
  const own = `/projects/${fork.id}`;
  await contributor.post(`${own}/repository/branches`, { branch: 'mine', ref: 'main' });
  await commit(contributor, own, 'mine', file.path, file.content);
  const { body: request } = await contributor.post(`${own}/merge_requests`, {
    source_branch: 'mine',
    target_branch: 'main',
    title: 'From a fork',
    target_project_id: project.id,
  });
  return { own, request };
};
