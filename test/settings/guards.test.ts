import { afterEach, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { downloadExport, importArchive } from '../transfers/support.ts';

const app = useApp();
const set = async (settings: Record<string, unknown>) =>
  expect((await app().as(app().root).put('/application/settings', settings)).status).toBe(200);

afterEach(() =>
  set({ issues_create_limit: 0, raw_blob_request_limit: 0, security_txt_content: '', snippet_size_limit: 52_428_800 }),
);

describe('issues_create_limit', () => {
  it('limits the issues of a user in a minute, over REST and GraphQL together', async () => {
    const [owner, other] = [await app().make.user(), await app().make.user()];
    const project = await app().make.project({ visibility: 'public' }, owner);
    const open = async (user = owner) =>
      (await app().as(user).post(`/projects/${project.id}/issues`, { title: 'x' })).status;
    const openByGraphql = async () => {
      const { errors } = await app()
        .as(owner)
        .graphql(
          `mutation { createIssue(input: { projectPath: "${project.path_with_namespace}", title: "x" }) { issue { iid } } }`,
        );
      return errors?.[0]?.message ?? null;
    };
    expect([await open(), await open(), await open()]).toEqual([201, 201, 201]);
    await set({ issues_create_limit: 2 });
    expect([await open(), await openByGraphql(), await open()]).toEqual([201, null, 429]);
    expect(await openByGraphql()).toBe('This endpoint has been requested too many times. Try again later.');
    expect(await open(other)).toBe(201);
    await set({ issues_create_limit: 0 });
    expect(await open()).toBe(201);
  });
});

describe('raw_blob_request_limit', () => {
  it('limits how often a file of a commit is read, by all callers together', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'public', initialize_with_readme: true }, owner);
    const client = app().as(owner);
    const path = `/projects/${project.id}/repository`;
    await client.post(`${path}/files/other.txt`, { branch: 'main', content: 'x', commit_message: 'Add' });
    const { body: readme } = await client.get(`${path}/files/README.md?ref=main`);
    const raw = async (file: string, by = client) => (await by.get(`${path}/files/${file}/raw?ref=main`)).status;
    const blob = async () => (await client.get(`${path}/blobs/${readme.blob_id}/raw`)).status;
    await set({ raw_blob_request_limit: 1 });
    expect([await raw('README.md'), await raw('README.md', app().anonymous)]).toEqual([200, 429]);
    expect([await raw('other.txt'), await blob(), await blob()]).toEqual([200, 200, 429]);
    // Answers as JSON are not raw.
    expect((await client.get(`${path}/files/README.md?ref=main`)).status).toBe(200);
    expect((await client.get(`${path}/blobs/${readme.blob_id}`)).status).toBe(200);
    await set({ raw_blob_request_limit: 0 });
    expect([await raw('README.md'), await blob()]).toEqual([200, 200]);
  });
});

describe('snippet_size_limit', () => {
  it('leaves larger snippets of an archive out, and says so', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    await app()
      .hub.services.db.insertInto('snippets')
      .values(['short', 'much longer'].map((content) => ({ project_id: project.id, title: content, content })))
      .execute();
    const { bytes } = await downloadExport(app(), owner, project.id);
    const importAs = async (path: string) => {
      const { body } = await importArchive(app(), owner, bytes, { path });
      await app().settle();
      const titles = await app()
        .hub.services.db.selectFrom('snippets')
        .select('title')
        .where('project_id', '=', body.id)
        .orderBy('id')
        .execute();
      const { failed_relations } = (await app().as(owner).get(`/projects/${body.id}/import`)).body;
      return [
        titles.map(({ title }) => title),
        failed_relations.map(({ exception_message }: { exception_message: string }) => exception_message),
      ];
    };
    expect(await importAs('whole')).toEqual([['short', 'much longer'], []]);
    await set({ snippet_size_limit: 5 });
    expect(await importAs('part')).toEqual([['short'], ['content is too long (maximum is 5 bytes)']]);
  });
});

describe('security_txt_content', () => {
  it('is served at its well-known place unless it is empty', async () => {
    const read = () => fetch(`${app().url}/.well-known/security.txt`);
    expect((await read()).status).toBe(404);
    const text = 'Contact: mailto:security@example.com\nExpires: 2030-01-01T00:00:00Z\n';
    await set({ security_txt_content: text });
    const shown = await read();
    expect([shown.status, shown.headers.get('content-type'), await shown.text()]).toEqual([
      200,
      'text/plain; charset=utf-8',
      text,
    ]);
    await set({ security_txt_content: '' });
    expect((await read()).status).toBe(404);
  });
});
