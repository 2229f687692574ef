import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

it('the attributes of a language are skipped if matching them would take git too long', async () => {
  const owner = await app().make.user();
  const project = await app().make.project({}, owner);
  // Create these through the API, because git would match the attributes too.
  const files = {
    '.gitattributes': `${'**/a/'.repeat(9)}**/b linguist-vendored\n`,
    [`${'a/'.repeat(120)}b.rb`]: 'puts 1\n',
  };
  const actions = Object.entries(files).map(([file_path, content]) => ({ action: 'create', file_path, content }));
  const commit = { branch: 'main', commit_message: 'Files', actions };
  expect((await app().as(owner).post(`/projects/${project.id}/repository/commits`, commit)).status).toBe(201);
  await app().settle();
  expect((await app().as(owner).get(`/projects/${project.id}/languages`)).body).toEqual({ Ruby: 100 });
});
