import { expect } from 'vitest';
import { insertMergeRequest } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import type { TestApp } from '../support/app.ts';

/** Creates a project with an issue and a merge request, both of its maintainer. */
export const makeTracked = async (app: TestApp) => {
  const scene = await makeScene(app, { initialize_with_readme: true });
  const { people, path, project } = scene;
  const issue = await scene.maintainer.post(`${path}/issues`, { title: 'A bug' });
  expect(issue.status).toBe(201);
  const { iid } = await insertMergeRequest(app.hub.services.db, {
    project_id: project.id,
    author_id: people.maintainer.id,
    merge_status: 'can_be_merged',
  });
  return { ...scene, paths: { issues: `${path}/issues/1`, merge_requests: `${path}/merge_requests/${iid}` } };
};

export const KINDS = ['issues', 'merge_requests'] as const;
