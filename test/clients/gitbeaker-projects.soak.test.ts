import { Gitlab } from '@gitbeaker/rest';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ADMIN_TOKEN, type TestUser, useApp } from '../support/app.ts';
import { startFront } from './external.ts';

// An unmodified third-party client uses the external address.

const front = await startFront();
const app = useApp({ env: { MILLRACE_EXTERNAL_URL: front.url } });
let owner: TestUser;
let api: InstanceType<typeof Gitlab>;
let admin: InstanceType<typeof Gitlab>;

beforeAll(async () => {
  front.target = app().hub.url;
  owner = await app().make.user();
  api = new Gitlab({ host: front.url, token: await app().tokenOf(owner) });
  admin = new Gitlab({ host: front.url, token: ADMIN_TOKEN });
  for (const [name, visibility] of [
    ['one', 'public'],
    ['two', 'private'],
    ['three', 'private'],
  ] as const) {
    await api.Projects.create({ name, path: name, visibility, topics: ['beaker', `beaker-${name}`] });
  }
});
afterAll(() => front.close());

const names = (projects: readonly { readonly name: unknown }[]) => projects.map(({ name }) => name);

describe('gitbeaker', () => {
  it('pages through lists of projects by page number and by keyset', async () => {
    const common = { topic: 'beaker', sort: 'asc' } as const;
    expect(names(await api.Projects.all({ ...common, orderBy: 'id', perPage: 1, pagination: 'keyset' }))).toEqual([
      'one',
      'two',
      'three',
    ]);
    expect(names(await api.Projects.all({ ...common, orderBy: 'name', perPage: 2, pagination: 'offset' }))).toEqual([
      'one',
      'three',
      'two',
    ]);
    expect(names(await api.Projects.all({ ...common, orderBy: 'id' }))).toEqual(['one', 'two', 'three']);
    expect(
      names(await api.Projects.all({ topic: 'beaker', visibility: 'public', simple: true, membership: true })),
    ).toEqual(['one']);
    expect(names(await api.Projects.all({ topic: 'beaker', minAccessLevel: 50, search: 'tw', owned: true }))).toEqual([
      'two',
    ]);
    expect(names(await api.Users.allProjects(owner.id, { orderBy: 'id', sort: 'asc' }))).toEqual([
      'one',
      'two',
      'three',
    ]);
    await expect(
      api.Projects.all({ topic: 'beaker', orderBy: 'name', sort: 'asc', pagination: 'keyset' }),
    ).rejects.toMatchObject({
      cause: { description: expect.stringContaining('Keyset pagination is not yet available') },
    });
  });

  it('stars a project and lists its starrers', async () => {
    const [project] = await api.Projects.all({ topic: 'beaker-one' });
    const id = project?.id ?? 0;
    expect(await api.Projects.star(id)).toMatchObject({ star_count: 1 });
    expect(names(await api.Projects.all({ topic: 'beaker', starred: true }))).toEqual(['one']);
    expect(await api.Projects.allStarrers(id)).toMatchObject([
      { starred_since: expect.any(String), user: { id: owner.id } },
    ]);
    expect(names(await api.Users.allStarredProjects(owner.id))).toEqual(['one']);
    expect(await api.Users.allContributedProjects(owner.id)).toEqual([]);
    expect(await api.Projects.unstar(id)).toMatchObject({ star_count: 0 });
  });

  it('creates, reads, merges, renames and removes topics', async () => {
    const topic = await admin.Topics.create('beaker-made', { description: 'by hand' });
    expect(await api.Topics.show(topic.id)).toMatchObject({
      name: 'beaker-made',
      description: 'by hand',
      total_projects_count: 0,
    });
    const [carried] = await api.Topics.all({ search: 'beaker-one' });
    expect(carried).toMatchObject({ name: 'beaker-one', total_projects_count: 1 });
    await admin.Topics.merge(carried?.id ?? 0, topic.id);
    expect(names(await api.Projects.all({ topic: 'beaker-made' }))).toEqual(['one']);
    expect(await admin.Topics.edit(topic.id, { name: 'beaker-renamed' })).toMatchObject({ name: 'beaker-renamed' });
    await admin.Topics.remove(topic.id);
    expect((await api.Projects.all({ topic: 'beaker', search: 'one' }))[0]).toMatchObject({ topics: ['beaker'] });
    await expect(api.Topics.remove(topic.id)).rejects.toMatchObject({ cause: { description: '403 Forbidden' } });
  });

  it('reads a project with its licence', async () => {
    const project = await api.Projects.show(`${owner.username}/two`, { license: true, statistics: true });
    expect(project).toMatchObject({ name: 'two', license: null, statistics: { commit_count: 0 } });
  });
});
