import { expect } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import type { TestApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

/** Commits new files to a branch, which starts at `main` unless it is `main`. Returns the commit id. */
export const commitFiles = async (
  { owner, path }: { readonly owner: Client; readonly path: string },
  files: Readonly<Record<string, string>>,
  branch = 'main',
): Promise<string> => {
  const actions = Object.entries(files).map(([file_path, content]) => ({ action: 'create', file_path, content }));
  const start = branch === 'main' ? {} : { start_branch: 'main' };
  const input = { branch, ...start, commit_message: 'Add files', actions };
  const { status, body } = await owner.post(`${path}/repository/commits`, input);
  expect([status, body.message]).toEqual([201, 'Add files']);
  return String(body.id);
};

/** Creates a private project with files. `lint` checks its CI file, and `check` other content. */
export const makeCiProject = async (
  app: TestApp,
  files: Readonly<Record<string, string>>,
  attributes: Record<string, unknown> = {},
) => {
  const scene = await makeScene(app, attributes);
  const sha = await commitFiles(scene, files);
  const { owner, path } = scene;
  return {
    ...scene,
    sha,
    lint: async (query = '') => (await owner.get(`${path}/ci/lint?${query}`)).body,
    check: async (content: string, more: Record<string, unknown> = {}) =>
      (await owner.post(`${path}/ci/lint`, { content, ...more })).body,
  };
};
