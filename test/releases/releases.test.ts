import { describe, expect, it } from 'vitest';
import { insertRelease } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import { commitFile, runGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const folder = useFolder();
const db = () => app().hub.services.db;

describe('a release', () => {
  it('is read with its links, milestones and commit', async () => {
    const { project, path, owner, guest, people } = await makeScene(app());
    const tree = await workTree(folder());
    const sha = await commitFile(tree, 'a', 'a', 'Released');
    await runGit(tree, 'tag', '-a', 'v1/stable', '-m', 'One');
    const url = new URL(`${app().url}/${project.path_with_namespace}.git`);
    url.username = 'oauth2';
    url.password = await app().tokenOf(people.owner);
    await runGit(tree, 'push', '-q', String(url), 'main', 'v1/stable');
    const release = await insertRelease(db(), {
      project_id: project.id,
      tag: 'v1/stable',
      description: 'First <em>ever</em>',
      author_id: people.owner.id,
      released_at: '2026-01-01T00:00:00Z',
    });
    await insertRelease(db(), { project_id: project.id, tag: 'v2', name: 'Two', released_at: '2999-01-01T00:00:00Z' });
    await db()
      .insertInto('release_links')
      .values({ release_id: release.id, name: 'Image', url: 'https://example.com/i', link_type: 'image' })
      .execute();
    const milestone = await db()
      .insertInto('milestones')
      .values({ project_id: project.id, iid: 1, title: 'M1' })
      .returning('id')
      .executeTakeFirstOrThrow();
    await db()
      .insertInto('release_milestones')
      .values({ release_id: release.id, milestone_id: milestone.id })
      .execute();

    const { body } = await owner.get(`${path}/releases/v1%2Fstable?include_html_description=true`);
    expect(body).toMatchObject({
      tag_name: 'v1/stable',
      name: 'v1/stable',
      description_html: '<p dir="auto">First <em>ever</em></p>',
      released_at: '2026-01-01T00:00:00.000Z',
      upcoming_release: false,
      author: { username: people.owner.username },
      commit: { id: sha, title: 'Released' },
      commit_path: `/${project.path_with_namespace}/-/commit/${sha}`,
      tag_path: `/${project.path_with_namespace}/-/tags/v1/stable`,
      milestones: [{ title: 'M1', issue_stats: { total: 0, closed: 0 } }],
      assets: { links: [{ name: 'Image', link_type: 'image' }] },
    });
    const { count, sources } = body.assets;
    expect(count).toBe(sources.length + 1);
    expect(sources.map(({ format }: { format: string }) => format)).toEqual(
      expect.arrayContaining(['zip', 'tar.gz', 'tar']),
    );
    for (const { url } of sources) {
      const archive = await owner.fetch('GET', url.slice(app().url.length));
      expect([url, archive.status]).toEqual([url, 200]);
      expect((await archive.arrayBuffer()).byteLength).toBeGreaterThan(100);
    }
    const list = await owner.get(`${path}/releases`);
    expect(list.body.map((each: { tag_name: string }) => each.tag_name)).toEqual(['v2', 'v1/stable']);
    expect(list.body[0]).toMatchObject({ name: 'Two', upcoming_release: true, commit: null });
    const ascending = await owner.get(`${path}/releases?sort=asc&order_by=created_at&per_page=1`);
    expect(ascending.body[0].tag_name).toBe('v1/stable');
    expect((await owner.get(`${path}/releases/permalink/latest`)).body.tag_name).toBe('v1/stable');
    expect((await owner.get(`${path}/releases/none`)).status).toBe(404);

    const seen = await guest.get(`${path}/releases/v2`);
    expect(seen.status).toBe(200);
    for (const name of ['commit', 'commit_path', 'tag_path']) expect(name in seen.body).toBe(false);

    const query = `query ($path: ID!) { project(fullPath: $path) {
      releases { count nodes { tagName upcomingRelease } }
      release(tagName: "v1/stable") { name descriptionHtml author { username } commit { sha } milestones { title } links { name linkType } } } }`;
    const variables = { path: project.path_with_namespace };
    const { data, errors } = await owner.graphql(query, variables);
    expect(errors).toBeUndefined();
    expect(data.project).toEqual({
      releases: {
        count: 2,
        nodes: [
          { tagName: 'v2', upcomingRelease: true },
          { tagName: 'v1/stable', upcomingRelease: false },
        ],
      },
      release: {
        name: 'v1/stable',
        descriptionHtml: '<p dir="auto">First <em>ever</em></p>',
        author: { username: people.owner.username },
        commit: { sha },
        milestones: [{ title: 'M1' }],
        links: [{ name: 'Image', linkType: 'IMAGE' }],
      },
    });
    const asGuest = await guest.graphql(query, variables);
    expect(asGuest.data.project.release.commit).toBeNull();
  });

  it('is visible to everyone who may see the project and its releases', async () => {
    const { project, path, owner, guest, stranger } = await makeScene(app());
    await insertRelease(db(), { project_id: project.id, tag: 'v1' });
    for (const suffix of ['/releases', '/releases/v1', '/releases/permalink/latest']) {
      const statuses = [];
      for (const client of [owner, guest, stranger, app().anonymous]) {
        statuses.push((await client.get(path + suffix)).status);
      }
      expect([suffix, statuses]).toEqual([suffix, [200, 200, 404, 404]]);
    }
    await owner.put(path, { repository_access_level: 'disabled' });
    expect((await owner.get(`${path}/releases`)).status).toBe(404);
  });
});
