import { beforeAll, describe, expect, it } from 'vitest';
import { removeOfDeletedTags } from '#domains/releases/followers.ts';
import { readEvents } from '#platform/event-log/read.ts';
import { Receiver } from '../hooks/receiver.ts';
import { makeScene } from '../planning/scene.ts';
import { remoteOf, runGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = useApp();
const folder = useFolder();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;
let receiver: Receiver;
beforeAll(async () => {
  await admin().put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  receiver = await Receiver.start();
  return () => receiver[Symbol.asyncDispose]();
});

/** Creates a private project with one commit on its default branch, and a user who may push. */
const scene = async () => {
  const made = await makeScene(app(), { initialize_with_readme: true });
  const person = await app().make.user();
  await app().make.projectMember(made.project, person, 30);
  const developer = app().as(person);
  const branch = (await made.owner.get(`${made.path}/repository/branches`)).body[0];
  return { ...made, person, developer, releases: `${made.path}/releases`, sha: branch.commit.id, branch: branch.name };
};

const tagsOf = async (path: string) =>
  (await admin().get(`${path}/repository/tags`)).body.map((tag: { name: string }) => tag.name);

const eventsOf = async (projectId: number) =>
  (
    await db()
      .selectFrom('events')
      .select('kind')
      .where('subject_type', '=', 'Release')
      .where('project_id', '=', projectId)
      .orderBy('id')
      .execute()
  ).map(({ kind }) => kind);

describe('creating a release', () => {
  it('creates the tag from a ref if the tag does not exist', async () => {
    const { project, path, releases, developer, person, sha, branch } = await scene();
    const made = await developer.post(releases, {
      tag_name: 'v1.0',
      ref: branch,
      name: 'First',
      description: 'It works',
      released_at: '2026-01-02T03:04:05Z',
      assets: { links: [{ name: 'Linux', url: 'https://example.com/linux', link_type: 'package' }] },
    });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({
      tag_name: 'v1.0',
      name: 'First',
      description: 'It works',
      released_at: '2026-01-02T03:04:05.000Z',
      upcoming_release: false,
      author: { id: person.id },
      commit: { id: sha },
      assets: { links: [{ name: 'Linux', url: 'https://example.com/linux', link_type: 'package' }] },
      evidences: [],
    });
    expect(await tagsOf(path)).toEqual(['v1.0']);
    const { body } = await developer.get(`${path}/repository/tags/v1.0`);
    expect(body).toMatchObject({ target: sha, release: { tag_name: 'v1.0', description: 'It works' } });
    expect(await eventsOf(project.id)).toEqual(['release.created']);
    // The tag exists now, so no ref is needed, and a second release of it is refused.
    expect((await developer.post(releases, { tag_name: 'v1.0' })).status).toBe(409);
    await developer.delete(`${releases}/v1.0`);
    expect((await developer.post(releases, { tag_name: 'v1.0' })).body).toMatchObject({
      name: 'v1.0',
      commit: { id: sha },
    });
  });

  it('accepts milestones of the project and of the groups above', async () => {
    const { path, releases, developer, owner, group, branch } = await scene();
    const own = (await owner.post(`${path}/milestones`, { title: 'M1' })).body;
    const above = (await owner.post(`/groups/${group.id}/milestones`, { title: 'G1' })).body;
    const byTitle = await developer.post(releases, { tag_name: 'a', ref: branch, milestones: ['M1', 'G1'] });
    const titles = (body: { milestones: { title: string }[] }) => body.milestones.map(({ title }) => title).toSorted();
    expect(titles(byTitle.body)).toEqual(['G1', 'M1']);
    const byId = await developer.post(releases, { tag_name: 'b', ref: branch, milestone_ids: [own.id] });
    expect(titles(byId.body)).toEqual(['M1']);
    const other = await makeScene(app());
    const foreign = (await other.owner.post(`${other.path}/milestones`, { title: 'Foreign' })).body;
    for (const wrong of [
      { milestones: ['M1', 'Foreign'] },
      { milestone_ids: [foreign.id] },
      { milestones: ['M1'], milestone_ids: [above.id] },
    ]) {
      expect((await developer.post(releases, { tag_name: 'c', ref: branch, ...wrong })).status).toBe(400);
    }
    expect(await tagsOf(path)).toEqual(expect.not.arrayContaining(['c']));
    expect(titles((await developer.put(`${releases}/a`, { milestones: [] })).body)).toEqual([]);
  });

  it('makes it upcoming if its date is in the future, and not the latest', async () => {
    const { releases, developer, branch } = await scene();
    const made = await developer.post(releases, { tag_name: 'next', ref: branch, released_at: '2999-01-01T00:00:00Z' });
    expect(made.body.upcoming_release).toBe(true);
    expect((await developer.get(`${releases}/permalink/latest`)).status).toBe(404);
    await developer.post(releases, { tag_name: 'now' });
    await developer.post(releases, { tag_name: 'now', ref: branch });
    expect((await developer.get(`${releases}/permalink/latest`)).body.tag_name).toBe('now');
  });

  it('refuses invalid input, and creates no tag', async () => {
    const { project, path, releases, developer, branch } = await scene();
    const url = 'https://example.com';
    for (const wrong of [
      {},
      { tag_name: 'x' },
      { tag_name: 'x', ref: 'nowhere' },
      { tag_name: '-x', ref: branch },
      { tag_name: 'a..b', ref: branch },
      { tag_name: 'x.lock', ref: branch },
      { tag_name: 'f'.repeat(40), ref: branch },
      { tag_name: 'x', ref: branch, name: 'n'.repeat(256) },
      { tag_name: 'x', ref: branch, released_at: 'tomorrow' },
      { tag_name: 'x', ref: branch, milestones: ['None such'] },
      { tag_name: 'x', ref: branch, assets: { links: [{ name: 'a', url: 'javascript:alert(1)' }] } },
      { tag_name: 'x', ref: branch, assets: { links: [{ name: 'a', url: 'file:///etc/passwd' }] } },
      { tag_name: 'x', ref: branch, assets: { links: [{ name: 'a', url: 'not a url' }] } },
      { tag_name: 'x', ref: branch, assets: { links: [{ name: ' ', url: 'https://example.com' }] } },
      { tag_name: 'x', ref: branch, assets: { links: [{ name: 'a', url: 'https://e.com', filepath: '/../x' }] } },
      {
        tag_name: 'x',
        ref: branch,
        assets: { links: ['/a', '/b'].map((filepath) => ({ name: 'a', url: url + filepath, filepath })) },
      },
      {
        tag_name: 'x',
        ref: branch,
        assets: { links: ['a', 'b'].map((name) => ({ name, url: `${url}/${name}`, filepath: '/a' })) },
      },
    ]) {
      const { status } = await developer.post(releases, wrong);
      expect([JSON.stringify(wrong).slice(0, 90), status]).toEqual([JSON.stringify(wrong).slice(0, 90), 400]);
    }
    expect(await tagsOf(path)).toEqual([]);
    expect(await eventsOf(project.id)).toEqual([]);
  });

  it('succeeds once out of twenty concurrent requests', async () => {
    const { releases, developer, branch, project } = await scene();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => developer.post(releases, { tag_name: 'v1', ref: branch })),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.every(({ status }) => [201, 400, 409].includes(status))).toBe(true);
    expect((await developer.get(releases)).body).toHaveLength(1);
    expect(await eventsOf(project.id)).toEqual(['release.created']);
  });

  it('requires a Developer, or for a protected tag a user who may create it', async () => {
    const { path, project, releases, reporter, stranger, developer, maintainer, branch } = await scene();
    const wanted = { tag_name: 'v1', ref: branch };
    expect((await reporter.post(releases, wanted)).status).toBe(403);
    expect((await stranger.post(releases, wanted)).status).toBe(404);
    expect((await app().anonymous.post(releases, wanted)).status).toBe(401);
    const { id } = await db()
      .insertInto('protected_tags')
      .values({ project_id: project.id, name: 'v*' })
      .returning('id')
      .executeTakeFirstOrThrow();
    await db()
      .insertInto('protection_levels')
      .values({ protected_tag_id: id, action: 'create', access_level: 40 })
      .execute();
    expect((await developer.post(releases, wanted)).status).toBe(403);
    expect(await tagsOf(path)).toEqual([]);
    expect((await maintainer.post(releases, wanted)).status).toBe(201);
    expect((await developer.put(`${releases}/v1`, { name: 'Mine' })).status).toBe(403);
    expect((await developer.delete(`${releases}/v1`)).status).toBe(403);
    const link = { name: 'a', url: 'https://example.com' };
    expect((await developer.post(`${releases}/v1/assets/links`, link)).status).toBe(403);
    expect((await maintainer.put(`${releases}/v1`, { name: 'Ours' })).body.name).toBe('Ours');
  });
});

describe('a release', () => {
  it('is changed and deleted by Developers, but its tag stays', async () => {
    const { project, path, releases, developer, reporter, stranger, branch } = await scene();
    await developer.post(releases, { tag_name: 'v/1', ref: branch, name: 'One', description: 'D' });
    const one = `${releases}/v%2F1`;
    const changed = await developer.put(one, { name: 'Two', released_at: '2025-05-05T00:00:00Z' });
    expect(changed.body).toMatchObject({ name: 'Two', description: 'D', released_at: '2025-05-05T00:00:00.000Z' });
    expect((await reporter.put(one, { name: 'x' })).status).toBe(403);
    expect((await stranger.put(one, { name: 'x' })).status).toBe(404);
    expect((await reporter.delete(one)).status).toBe(403);
    expect((await stranger.delete(one)).status).toBe(404);
    expect((await app().anonymous.delete(one)).status).toBe(401);
    expect((await developer.put(`${releases}/none`, { name: 'x' })).status).toBe(404);
    const gone = await developer.delete(one);
    expect([gone.status, gone.body.tag_name]).toEqual([200, 'v/1']);
    expect((await developer.get(one)).status).toBe(404);
    expect((await developer.delete(one)).status).toBe(404);
    expect(await tagsOf(path)).toEqual(['v/1']);
    expect(await eventsOf(project.id)).toEqual(['release.created', 'release.updated', 'release.deleted']);
  });

  it('has links that Developers add, change and remove', async () => {
    const { releases, developer, reporter, stranger, branch } = await scene();
    await developer.post(releases, { tag_name: 'v1', ref: branch });
    const links = `${releases}/v1/assets/links`;
    const made = await developer.post(links, {
      name: 'Docs',
      url: 'https://example.com/d',
      direct_asset_path: '/docs',
    });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({ name: 'Docs', url: 'https://example.com/d', link_type: 'other' });
    expect((await developer.post(links, { name: 'Docs', url: 'https://example.com/e' })).status).toBe(400);
    const one = `${links}/${made.body.id}`;
    // The lasting URL follows the link.
    const { pathname } = new URL(made.body.direct_asset_url);
    expect(pathname).toMatch(/\/releases\/v1\/downloads\/docs$/);
    const followed = await reporter.get(pathname);
    expect([followed.status, followed.headers.get('location')]).toEqual([302, 'https://example.com/d']);
    for (const client of [stranger, app().anonymous]) expect((await client.get(pathname)).status).toBe(404);
    expect((await reporter.get(`${pathname}/none`)).status).toBe(404);
    // So does the one of the newest release.
    const latest = `${releases}/permalink/latest/downloads/docs`;
    await developer.post(releases, { tag_name: 'v3', ref: branch, released_at: '2099-01-01T00:00:00Z' });
    expect((await reporter.get(latest)).headers.get('location')).toBe('https://example.com/d');
    for (const client of [stranger, app().anonymous]) expect((await client.get(latest)).status).toBe(404);
    expect((await reporter.get(`${latest}/none`)).status).toBe(404);
    expect((await reporter.get(links)).body).toEqual([made.body]);
    expect((await reporter.get(one)).body).toEqual(made.body);
    expect((await developer.put(one, { url: 'https://example.com/new', link_type: 'runbook' })).body).toMatchObject({
      name: 'Docs',
      url: 'https://example.com/new',
      link_type: 'runbook',
    });
    expect((await developer.put(one, { url: 'javascript:alert(1)' })).status).toBe(400);
    expect((await developer.put(one, { link_type: 'nonsense' })).status).toBe(400);
    for (const [client, status] of [
      [reporter, 403],
      [stranger, 404],
      [app().anonymous, 401],
    ] as const) {
      expect((await client.post(links, { name: 'x', url: 'https://example.com' })).status).toBe(status);
      expect((await client.put(one, { name: 'x' })).status).toBe(status);
      expect((await client.delete(one)).status).toBe(status);
    }
    expect((await app().anonymous.get(links)).status).toBe(404);
    await developer.post(releases, { tag_name: 'v2', ref: branch });
    expect((await developer.get(`${releases}/v2/assets/links/${made.body.id}`)).status).toBe(404);
    expect((await developer.delete(`${releases}/v2/assets/links/${made.body.id}`)).status).toBe(404);
    expect((await developer.delete(one)).body.id).toBe(made.body.id);
    expect((await developer.get(links)).body).toEqual([]);
  });

  it('has one link for each path and URL', async () => {
    const { project, releases, developer, branch } = await scene();
    const link = (name: string, direct_asset_path: string) => ({
      ...{ name, direct_asset_path, url: `https://example.com/${name}` },
    });
    const taken = { status: 400, body: { message: { filepath: ['has already been taken'] } } };
    for (const tag_name of ['v1', 'v2']) {
      const assets = { links: [link('A', '/a')] };
      expect((await developer.post(releases, { tag_name, ref: branch, assets })).status).toBe(201);
    }
    const links = `${releases}/v1/assets/links`;
    expect(await developer.post(links, link('B', '/a'))).toMatchObject(taken);
    const { body: other } = await developer.post(links, link('B', '/b'));
    expect(await developer.put(`${links}/${other.id}`, { filepath: '/a' })).toMatchObject(taken);
    expect((await developer.put(`${links}/${other.id}`, { filepath: '/b', name: 'C', url: other.url })).status).toBe(
      200,
    );
    const again = { name: 'D', url: 'https://example.com/A' };
    const takenUrl = { status: 400, body: { message: { url: ['has already been taken'] } } };
    expect(await developer.post(links, again)).toMatchObject(takenUrl);
    expect(await developer.put(`${links}/${other.id}`, { url: again.url })).toMatchObject(takenUrl);
    const twice = { tag_name: 'v3', ref: branch, assets: { links: [again, { ...again, name: 'E' }] } };
    expect(await developer.post(releases, twice)).toMatchObject(takenUrl);
    const { data } = await developer.graphql(
      `mutation ($input: ReleaseAssetLinkCreateInput!) { releaseAssetLinkCreate(input: $input) { errors link { name } } }`,
      {
        input: {
          projectPath: project.path_with_namespace,
          tagName: 'v1',
          name: 'D',
          url: 'https://example.com',
          directAssetPath: '/b',
        },
      },
    );
    expect(data.releaseAssetLinkCreate).toEqual({ errors: ['Filepath has already been taken'], link: null });
  });

  it('is deleted with its tag, once, while others stay', async () => {
    const { project, path, releases, developer, person, owner, branch } = await scene();
    const hook = { url: `${receiver.url}/gone`, releases_events: true, push_events: false };
    expect((await owner.post(`${path}/hooks`, hook)).status).toBe(201);
    for (const tag_name of ['a/1', 'b', 'stays']) await developer.post(releases, { tag_name, ref: branch });
    const left = async () =>
      (await developer.get(releases)).body.map((each: { tag_name: string }) => each.tag_name).sort();
    expect((await developer.delete(`${path}/repository/tags/a%2F1`)).status).toBe(204);
    await app().settle();
    expect(await left()).toEqual(['b', 'stays']);
    const tree = await workTree(folder());
    const remote = await remoteOf(app(), project, person);
    await runGit(tree, 'push', '-q', remote, ':refs/tags/b');
    // Moving a tag is not deleting it.
    await runGit(tree, 'push', '-q', '--force', remote, 'HEAD:refs/tags/stays');
    await app().settle();
    expect(await left()).toEqual(['stays']);
    const created = Array.from({ length: 3 }, () => 'release.created');
    expect(await eventsOf(project.id)).toEqual([...created, 'release.deleted', 'release.deleted']);
    const { rows: deleters } = await app().hub.services.pool.query(
      `select actor_id from events where project_id = $1 and kind = 'release.deleted' order by id`,
      [project.id],
    );
    expect(deleters).toEqual([{ actor_id: person.id }, { actor_id: person.id }]);
    const delivered = () =>
      receiver.received.filter(({ path, body }) => path.endsWith('/gone') && body.action === 'delete');
    await until('two deliveries', () => delivered().length === 2);
    expect(delivered().map(({ body }) => body.tag)).toEqual(['a/1', 'b']);
  });

  it('stays with a recreated tag when an older deletion is handled late', async () => {
    const { project, path, releases, developer, branch } = await scene();
    await developer.post(releases, { tag_name: 'v1', ref: branch });
    await developer.delete(`${releases}/v1`);
    await developer.delete(`${path}/repository/tags/v1`);
    await developer.post(releases, { tag_name: 'v1', ref: branch });
    // The hub handles the events of the deletion again after all of this.
    await app().settle();
    const window = { after: 0, until: Number.MAX_SAFE_INTEGER, limit: 1_000 };
    const kinds = new Set(['tag.pushed']);
    const deleted = await readEvents(db(), window, { kinds, project_id: project.id });
    expect(deleted).toHaveLength(3);
    await app()
      .context()
      .transaction((tx) => removeOfDeletedTags.handle(tx, deleted));
    expect((await developer.get(`${releases}/v1`)).status).toBe(200);
    expect(await eventsOf(project.id)).toEqual(['release.created', 'release.deleted', 'release.created']);
  });

  it('is reported to hooks', async () => {
    const { project, releases, developer, owner, sha, branch, path } = await scene();
    const hook = await owner.post(`${path}/hooks`, {
      url: `${receiver.url}/releases`,
      releases_events: true,
      push_events: false,
    });
    expect(hook.status).toBe(201);
    await developer.post(releases, {
      tag_name: 'v1',
      ref: branch,
      description: 'It works',
      assets: { links: [{ name: 'a', url: 'https://example.com/a' }] },
    });
    await developer.put(`${releases}/v1`, { name: 'One' });
    await developer.delete(`${releases}/v1`);
    await app().settle();
    const received = () => receiver.received.filter((each) => each.path.endsWith('/releases'));
    await until('three deliveries', () => received().length === 3);
    // Deliveries of one hook may arrive out of order.
    const [first, last, second] = received().toSorted((a, b) => a.body.action.localeCompare(b.body.action));
    expect([first, second, last].map((each) => each?.body.action)).toEqual(['create', 'update', 'delete']);
    expect(first?.headers['x-gitlab-event']).toBe('Release Hook');
    expect(first?.body).toMatchObject({
      object_kind: 'release',
      id: expect.any(Number),
      created_at: expect.stringMatching(/ UTC$/),
      released_at: expect.stringMatching(/ UTC$/),
      name: 'v1',
      tag: 'v1',
      description: 'It works',
      project: { id: project.id },
      url: expect.stringContaining('/-/releases/v1'),
      assets: { links: [{ name: 'a', url: 'https://example.com/a', link_type: 'other', external: true }] },
      commit: { id: sha },
    });
    expect(second?.body.name).toBe('One');
  });

  it('can be written over GraphQL too', async () => {
    const { project, developer, reporter, branch } = await scene();
    const path = project.path_with_namespace;
    const create = (client: typeof developer) =>
      client.graphql(
        `mutation ($path: ID!, $ref: String) { releaseCreate(input: { projectPath: $path, tagName: "v1", ref: $ref, name: "One",
          assets: { links: [{ name: "a", url: "https://example.com/a", linkType: IMAGE }] } }) {
          release { tagName name links { id name linkType directAssetUrl } } errors } }`,
        { path, ref: branch },
      );
    expect((await create(reporter)).errors).toBeDefined();
    const made = (await create(developer)).data.releaseCreate;
    expect(made).toMatchObject({
      errors: [],
      release: { tagName: 'v1', links: [{ name: 'a', linkType: 'IMAGE', directAssetUrl: 'https://example.com/a' }] },
    });
    const updated = await developer.graphql(
      `mutation ($path: ID!) { releaseUpdate(input: { projectPath: $path, tagName: "v1", name: "Two" }) { release { name } errors } }`,
      { path },
    );
    expect(updated.data.releaseUpdate.release.name).toBe('Two');
    const link = await developer.graphql(
      `mutation ($id: ReleasesLinkID!) { releaseAssetLinkUpdate(input: { id: $id, name: "b", directAssetPath: "/b" }) {
        link { name directAssetUrl } errors } }`,
      { id: made.release.links[0].id },
    );
    expect(link.data.releaseAssetLinkUpdate.link).toEqual({
      name: 'b',
      directAssetUrl: `${app().url}/api/v4/projects/${project.id}/releases/v1/downloads/b`,
    });
    const foreign = await makeScene(app());
    const refused = await foreign.owner.graphql(
      `mutation ($id: ReleasesLinkID!) { releaseAssetLinkDelete(input: { id: $id }) { errors } }`,
      { id: made.release.links[0].id },
    );
    expect(refused.errors?.[0]?.message).toMatch(/not found|doesn't exist|does not exist/i);
    const added = await developer.graphql(
      `mutation ($path: ID!) { releaseAssetLinkCreate(input: { projectPath: $path, tagName: "v1", name: "c",
        url: "javascript:x" }) { link { id } errors } }`,
      { path },
    );
    expect(added.data.releaseAssetLinkCreate.errors).toHaveLength(1);
    const gone = await developer.graphql(
      `mutation ($path: ID!) { releaseDelete(input: { projectPath: $path, tagName: "v1" }) { release { tagName } errors } }`,
      { path },
    );
    expect(gone.data.releaseDelete).toEqual({ release: { tagName: 'v1' }, errors: [] });
  });
});
