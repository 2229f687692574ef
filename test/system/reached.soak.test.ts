import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { graphqlArguments, restParameters, statementsOfSource } from '../support/reachable.ts';
import { readReached, writeReached } from '../support/reached.ts';

const app = useApp();

it('what tests reach is recorded under the names in the lists', async () => {
  const { as, make } = app();
  const owner = await make.user();
  const project = await make.project({}, owner);
  await as(owner).put(`/projects/${project.id}`, { description: 'recorded' });
  await as(owner).get('/issues?not[labels]=bug');
  await as(owner).graphql(
    `mutation($i: ProjectUpdateInput!) { projectUpdate(input: $i) { project { issues(state: opened) { count } } errors } }`,
    { i: { fullPath: project.path_with_namespace, description: 'again' } },
  );
  writeReached();
  const reached = readReached();
  const labelsOf = (all: readonly { name: string; label: string }[]) =>
    all.filter(({ name }) => reached.has(name)).map(({ label }) => label);
  expect(labelsOf(restParameters())).toEqual(
    expect.arrayContaining(['PUT /projects/:id description', 'GET /issues not', 'GET /issues not[labels]']),
  );
  expect(labelsOf(graphqlArguments())).toEqual(
    expect.arrayContaining(['ProjectUpdateInput.fullPath', 'ProjectUpdateInput.description', 'Project.issues(state)']),
  );
  const statements = labelsOf(await statementsOfSource());
  expect(statements).toContainEqual(expect.stringContaining('src/platform/event-log/'));
});
