import { expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { countStatements } from '../support/statements.ts';
import { insertMergeRequest } from './support.ts';

const app = useApp();

it('counts the open merge requests of many projects in one statement, for those who may read them', async () => {
  const { project, group, owner, reporter, guest, people } = await makeScene(app());
  const other = await app().make.project({ namespace_id: group.id }, people.owner);
  const { db } = app().hub.services;
  for (const state of ['opened', 'opened', 'closed', 'merged'])
    await insertMergeRequest(db, { project_id: project.id, state });
  const one = `{ project(fullPath: "${project.path_with_namespace}") { openMergeRequestsCount } }`;
  expect((await owner.graphql(one)).data.project).toEqual({ openMergeRequestsCount: 2 });
  expect((await reporter.graphql(one)).data.project).toEqual({ openMergeRequestsCount: 2 });
  expect((await guest.graphql(one)).data.project).toEqual({ openMergeRequestsCount: null });
  const many = `{ group(fullPath: "${group.full_path}") { projects(sort: ID_ASC) { nodes { id openMergeRequestsCount } } } }`;
  const { data } = await owner.graphql(many);
  expect(data.group.projects.nodes).toEqual([
    { id: `gid://gitlab/Project/${project.id}`, openMergeRequestsCount: 2 },
    { id: `gid://gitlab/Project/${other.id}`, openMergeRequestsCount: 0 },
  ]);
  const before = await countStatements(app(), () => owner.graphql(many));
  await app().make.project({ namespace_id: group.id }, people.owner);
  expect(await countStatements(app(), () => owner.graphql(many))).toBe(before);
});
