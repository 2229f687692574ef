import { describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

const app = useApp();

const makeBranches = async (attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app(), { initialize_with_readme: true, ...attributes });
  await scene.owner.post(`${scene.path}/repository/branches`, { branch: 'feature', ref: 'main' });
  for (const title of ['One', 'Two', 'Three']) await scene.owner.post(`${scene.path}/issues`, { title });
  return scene;
};

const open = async (client: Client, path: string, attributes: Record<string, unknown>) => {
  const answer = await client.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Add a file',
    ...attributes,
  });
  expect(answer).toMatchObject({ status: 201 });
  await app().settle();
  return `${path}/merge_requests/${answer.body.iid}`;
};

const iids = async (client: Client, path: string) =>
  (await client.get(path)).body.map(({ iid }: { iid: number }) => iid);
const notes = async (client: Client, path: string): Promise<string[]> =>
  (await client.get(`${path}/notes?sort=asc`)).body.map(({ body }: { body: string }) => body);

describe('cross references', () => {
  it('list the merge requests that mention and close an issue', async () => {
    const { owner, guest, stranger, project, path } = await makeBranches();
    const mr = await open(owner, path, { description: 'Closes #1, see #2' });
    expect(await iids(owner, `${path}/issues/1/closed_by`)).toEqual([1]);
    expect(await iids(owner, `${path}/issues/1/related_merge_requests`)).toEqual([1]);
    expect(await iids(owner, `${path}/issues/2/closed_by`)).toEqual([]);
    expect(await iids(owner, `${path}/issues/2/related_merge_requests`)).toEqual([1]);
    expect((await owner.get(`${path}/issues/1`)).body.merge_requests_count).toBe(1);
    expect((await owner.get(`${path}/issues/2`)).body.merge_requests_count).toBe(0);
    expect(await notes(owner, `${path}/issues/1`)).toEqual(['mentioned in merge request !1']);

    await owner.put(mr, { description: 'Closes #2' });
    await owner.post(`${mr}/notes`, { body: 'Also closes #3' });
    await app().settle();
    expect(await iids(owner, `${path}/issues/1/closed_by`)).toEqual([]);
    expect(await iids(owner, `${path}/issues/2/closed_by`)).toEqual([1]);
    expect(await iids(owner, `${path}/issues/3/closed_by`)).toEqual([]);
    expect(await iids(owner, `${path}/issues/3/related_merge_requests`)).toEqual([1]);
    expect(await notes(owner, `${path}/issues/2`)).toEqual(['mentioned in merge request !1']);

    // Guests of a private project see its issues, but not its merge requests.
    expect(await iids(guest, `${path}/issues/2/closed_by`)).toEqual([]);
    expect((await guest.get(`${path}/issues/2`)).body.merge_requests_count).toBe(0);
    for (const list of ['closed_by', 'related_merge_requests']) {
      expect((await stranger.get(`${path}/issues/1/${list}`)).status).toBe(404);
    }
    const query = `query ($path: ID!) { project(fullPath: $path) { issue(iid: "2") {
      relatedMergeRequests { nodes { iid } } closingMergeRequests { nodes { iid } } } } }`;
    const found = await owner.graphql(query, { path: project.path_with_namespace });
    const one = { nodes: [{ iid: '1' }] };
    expect(found.data.project.issue).toEqual({ relatedMergeRequests: one, closingMergeRequests: one });
  });

  it('are read from the messages of commits too', async () => {
    const { owner, path } = await makeBranches();
    await owner.post(`${path}/repository/commits`, {
      branch: 'feature',
      commit_message: 'Add a file\n\nCloses #2',
      actions: [{ action: 'create', file_path: 'new.txt', content: 'text\n' }],
    });
    await open(owner, path, {});
    expect(await iids(owner, `${path}/issues/2/closed_by`)).toEqual([1]);
  });

  it('add one note to merge requests and issues that an issue mentions', async () => {
    const { owner, path } = await makeBranches();
    const mr = await open(owner, path, {});
    await owner.put(`${path}/issues/1`, { description: 'After !1 and #2, like #1' });
    await owner.put(`${path}/issues/1`, { title: 'One, after !1' });
    await app().settle();
    expect(await notes(owner, mr)).toContain('mentioned in issue #1');
    expect((await notes(owner, mr)).filter((body) => body.startsWith('mentioned'))).toHaveLength(1);
    expect(await notes(owner, `${path}/issues/2`)).toEqual(['mentioned in issue #1']);
    expect((await notes(owner, `${path}/issues/1`)).filter((body) => body.startsWith('mentioned'))).toEqual([]);
  });

  it('do not reveal confidential issues and private projects', async () => {
    const { owner, path, project } = await makeBranches({ visibility: 'public' });
    const secret = await makeScene(app());
    await secret.owner.post(`${secret.path}/issues`, {
      title: 'Private',
      description: `${project.path_with_namespace}#1`,
    });
    await owner.post(`${path}/issues`, { title: 'Confidential', confidential: true, description: '#1' });
    const open = await makeScene(app(), { visibility: 'public' });
    await open.owner.post(`${open.path}/issues`, { title: 'Open', description: `${project.path_with_namespace}#1` });
    await app().settle();
    expect(await notes(owner, `${path}/issues/1`)).toEqual([
      `mentioned in issue ${open.project.path_with_namespace}#1`,
    ]);
  });

  it('are noted for Reporters alone if other readers may not see what mentions something', async () => {
    const { owner, guest, reporter, stranger, path } = await makeBranches({
      visibility: 'public',
      merge_requests_access_level: 'private',
    });
    await open(owner, path, { description: 'See #1' });
    for (const client of [owner, reporter])
      expect(await notes(client, `${path}/issues/1`)).toEqual(['mentioned in merge request !1']);
    for (const client of [guest, stranger, app().anonymous])
      expect(await notes(client, `${path}/issues/1`)).toEqual([]);

    await owner.put(path, { issues_access_level: 'private', merge_requests_access_level: 'enabled' });
    await owner.post(`${path}/issues`, { title: 'Four', description: 'After !1' });
    await app().settle();
    const mentions = async (client: Client) =>
      (await notes(client, `${path}/merge_requests/1`)).filter((body) => body.startsWith('mentioned'));
    expect(await mentions(reporter)).toEqual(['mentioned in issue #4']);
    expect(await mentions(stranger)).toEqual([]);
  });

  it('do not name guests of a private project its merge requests', async () => {
    const { owner, guest, reporter, path } = await makeBranches();
    await open(owner, path, { description: 'See #1' });
    expect(await notes(reporter, `${path}/issues/1`)).toEqual(['mentioned in merge request !1']);
    expect(await notes(guest, `${path}/issues/1`)).toEqual([]);
  });

  it('do not name internal projects to the readers of a public one', async () => {
    const [target, inside] = [await makeBranches({ visibility: 'public' }), await makeScene(app())];
    const mention = async (visibility: string) => {
      await app().as(app().root).put(inside.path, { visibility });
      const description = `${target.project.path_with_namespace}#1`;
      const { body } = await inside.owner.post(`${inside.path}/issues`, { title: visibility, description });
      await app().settle();
      return `mentioned in issue ${inside.project.path_with_namespace}#${body.iid}`;
    };
    await mention('internal');
    expect(await notes(target.owner, `${target.path}/issues/1`)).toEqual([]);
    await target.owner.put(target.path, { visibility: 'internal' });
    const noted = await mention('internal');
    expect(await notes(target.reporter, `${target.path}/issues/1`)).toEqual([noted]);
    expect(await notes(target.stranger, `${target.path}/issues/1`)).toEqual([]);
  });

  it('do not reach targets that the author cannot see', async () => {
    const { owner, path, project } = await makeBranches();
    const other = await makeScene(app(), { visibility: 'public' });
    await other.owner.post(`${other.path}/issues`, { title: 'x', description: `${project.path_with_namespace}#1` });
    await app().settle();
    expect(await notes(owner, `${path}/issues/1`)).toEqual([]);
  });
});
