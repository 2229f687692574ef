import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

it('refuses a page with an answer above 32 MiB, and serves a smaller one', async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'public' }, owner);
  for (let n = 0; n < 33; n++) await app().as(owner).post(`/projects/${project.id}/issues`, { title: 'Long' });
  await app()
    .hub.services.db.updateTable('issues')
    .set({ description: 'x'.repeat(1_048_576) })
    .where('project_id', '=', project.id)
    .execute();

  const refused = await app().anonymous.get(`/projects/${project.id}/issues?per_page=100`);
  expect(refused.status).toBe(400);
  expect(JSON.stringify(refused.body)).toContain('per_page is too large for records of this size');
  expect(refused.headers.get('x-total')).toBeNull();
  const answered = await app().anonymous.get(`/projects/${project.id}/issues?per_page=30`);
  expect([answered.status, answered.body.length]).toEqual([200, 30]);

  const graphql = async (first: number) => {
    const query = `{ project(fullPath: "${project.path_with_namespace}") { issues(first: ${first}) { nodes { description } } } }`;
    const response = await fetch(`${app().url}/api/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query }),
    });
    return response.json();
  };
  expect((await graphql(100)).errors[0].message).toContain('The answer exceeds the limit');
  expect((await graphql(30)).data.project.issues.nodes).toHaveLength(30);
});
