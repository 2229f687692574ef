import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { pushCommits, README } from '../support/commits.ts';

const app = useApp();

const setUp = async () => {
  const scene = await makeScene(app());
  await pushCommits(app(), scene.project, scene.people.owner, [
    README,
    {
      branch: 'main',
      files: {
        '.gitlab/merge_request_templates/Release.md': '## Release\n',
        '.gitlab/merge_request_templates/A b.md': 'é\n',
        '.gitlab/merge_request_templates/deep/Other.md': 'Not here\n',
        '.gitlab/merge_request_templates/notes.txt': 'No template\n',
        '.gitlab/issue_templates/Bug.md': '## Steps\n',
        '.gitlab/issue_templates/Image.md': 'no\0text',
        '.gitlab/issue_templates/Large.md': 'x'.repeat(1024 * 1024 + 1),
      },
    },
    { branch: 'other', from: 'main', files: { '.gitlab/issue_templates/Later.md': 'Not yet\n' } },
  ]);
  const ask = async (client: Client, kind: string) =>
    (
      await client.graphql(
        `query ($path: ID!, $kind: DescriptionTemplateKind!) { project(fullPath: $path) { repository {
          descriptionTemplates(kind: $kind) { nodes { name content } } } } }`,
        { path: scene.project.path_with_namespace, kind },
      )
    ).data.project?.repository;
  return { ...scene, at: `${scene.path}/templates`, ask };
};

describe('templates for descriptions', () => {
  it('are the Markdown files in the folder of their kind on the default branch', async () => {
    const { reporter, at, ask } = await setUp();
    expect((await reporter.get(`${at}/merge_requests`)).body).toEqual([
      { key: 'A b', name: 'A b' },
      { key: 'Release', name: 'Release' },
    ]);
    expect((await reporter.get(`${at}/merge_requests?per_page=1&page=2`)).body).toMatchObject([{ name: 'Release' }]);
    expect((await reporter.get(`${at}/issues`)).body).toEqual([
      { key: 'Bug', name: 'Bug' },
      { key: 'Image', name: 'Image' },
      { key: 'Large', name: 'Large' },
    ]);
    expect((await reporter.get(`${at}/merge_requests/A%20b`)).body).toEqual({ name: 'A b', content: 'é\n' });
    expect((await reporter.get(`${at}/issues/Bug`)).body).toEqual({ name: 'Bug', content: '## Steps\n' });
    for (const missing of ['issues/Later', 'issues/bug', 'merge_requests/deep%2FOther', 'merge_requests/notes']) {
      expect([missing, (await reporter.get(`${at}/${missing}`)).status]).toEqual([missing, 404]);
    }
    expect((await reporter.get(`${at}/licenses`)).status).toBe(400);
    expect(await ask(reporter, 'MERGE_REQUEST')).toEqual({
      descriptionTemplates: {
        nodes: [
          { name: 'A b', content: 'é\n' },
          { name: 'Release', content: '## Release\n' },
        ],
      },
    });
  });

  it('have pages over GraphQL, with the text of those that are short', async () => {
    const { reporter, project, ask } = await setUp();
    expect(await ask(reporter, 'ISSUE')).toEqual({
      descriptionTemplates: {
        nodes: [
          { name: 'Bug', content: '## Steps\n' },
          { name: 'Image', content: null },
          { name: 'Large', content: null },
        ],
      },
    });
    const { data } = await reporter.graphql(
      `{ project(fullPath: "${project.path_with_namespace}") { repository {
        descriptionTemplates(kind: ISSUE, first: 1) { nodes { name } pageInfo { hasNextPage } } } } }`,
    );
    expect(data.project.repository.descriptionTemplates).toEqual({
      nodes: [{ name: 'Bug' }],
      pageInfo: { hasNextPage: true },
    });
  });

  it('are for those who may read the code', async () => {
    const { guest, stranger, at, ask } = await setUp();
    expect((await guest.get(`${at}/issues`)).status).toBe(403);
    expect((await guest.get(`${at}/issues/Bug`)).status).toBe(403);
    expect(await ask(guest, 'ISSUE')).toBeNull();
    for (const client of [stranger, app().anonymous]) {
      expect((await client.get(`${at}/issues`)).status).toBe(404);
      expect((await client.get(`${at}/issues/Bug`)).status).toBe(404);
    }
  });

  it('are none in a project without commits or without the folder', async () => {
    const empty = await makeScene(app());
    expect((await empty.owner.get(`${empty.path}/templates/issues`)).body).toEqual([]);
    await pushCommits(app(), empty.project, empty.people.owner, [README]);
    expect((await empty.owner.get(`${empty.path}/templates/issues`)).body).toEqual([]);
    expect((await empty.owner.get(`${empty.path}/templates/issues/Bug`)).status).toBe(404);
  });
});
