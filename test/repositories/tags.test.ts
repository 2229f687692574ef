import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import { runGitWith } from '../support/git.ts';
import { eventsOf, remoteOf, runGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private' }, owner);
  const tree = await workTree(folder());
  const remote = await remoteOf(app(), project, owner);
  await pushTree(app(), project, owner, tree, 'main');
  const head = await runGit(tree, 'rev-parse', 'HEAD');
  return { owner, project, tree, remote, head, path: `/projects/${project.id}/repository/tags` };
};
const memberOf = async (project: { id: number }, level: number): Promise<TestUser> => {
  const user = await app().make.user();
  await app().make.projectMember(project, user, level);
  return user;
};
// biome-ignore lint/suspicious/noExplicitAny: records of every kind
const namesOf = (answer: { body: any }) => answer.body.map(({ name }: { name: string }) => name);

describe('a tag', () => {
  it('is created as a lightweight or annotated tag, shown and deleted', async () => {
    const { owner, project, tree, remote, head, path } = await setUp();
    const client = app().as(owner);
    const light = await client.post(path, { tag_name: 'light/1', ref: 'main' });
    expect(light.status).toBe(201);
    expect(light.body).toMatchObject({
      name: 'light/1',
      target: head,
      message: '',
      commit: { id: head },
      release: null,
      protected: false,
      created_at: null,
    });
    const made = await client.post(path, {
      tag_name: 'v1.0.0',
      ref: head.slice(0, 9),
      message: 'The first\n\nwith notes',
    });
    expect(made.body).toMatchObject({ name: 'v1.0.0', message: 'The first\n\nwith notes', commit: { id: head } });
    expect(made.body.target).not.toBe(head);
    expect(made.body.created_at).toMatch(/^\d{4}-.*Z|\+00:00$/);
    await runGit(tree, 'fetch', '-q', '--tags', remote);
    expect(await runGit(tree, 'rev-parse', 'v1.0.0')).toBe(made.body.target);
    expect(await runGit(tree, 'cat-file', '-p', 'v1.0.0')).toContain(
      `tagger Name of ${owner.username} <${owner.username}@example.com>`,
    );
    await runGit(tree, 'fsck', '--strict');
    expect((await client.get(`${path}/v1.0.0`)).body).toEqual(made.body);
    expect((await client.get(`${path}/light%2F1`)).body).toEqual(light.body);
    expect((await client.get(`${path}/v1.0.0/signature`)).body).toEqual({ message: '404 Signature Not Found' });
    const events = await eventsOf(app(), project.id);
    expect(events.filter(({ kind }) => kind === 'tag.pushed').at(-1)).toMatchObject({
      actor_id: owner.id,
      payload: { ref: 'refs/tags/v1.0.0', before: null, after: made.body.target, message: 'The first\n\nwith notes' },
    });
    const deleted = await client.delete(`${path}/light%2F1`);
    expect([deleted.status, deleted.body]).toEqual([204, '']);
    expect((await client.get(`${path}/light%2F1`)).body).toEqual({ message: '404 Tag Not Found' });
    expect((await client.delete(`${path}/light%2F1`)).status).toBe(404);
    expect((await client.get(`${path}/none/signature`)).status).toBe(404);
  });

  it('shows the commit behind the tag that it points at, alone and in lists', async () => {
    const { owner, tree, remote, head, path } = await setUp();
    await runGit(tree, 'tag', '-a', 'inner', '-m', 'inner', 'main');
    await runGit(tree, 'tag', '-a', 'outer', '-m', 'outer', 'inner');
    await runGit(tree, 'push', '-q', remote, '--tags');
    const client = app().as(owner);
    const listed = (await client.get(`${path}?search=outer`)).body;
    expect(listed).toMatchObject([{ name: 'outer', message: 'outer', commit: { id: head } }]);
    expect(listed).toEqual([(await client.get(`${path}/outer`)).body]);
  });

  it('can start at HEAD or at a full ref name, like a branch, even if a branch and a tag share a short name', async () => {
    const { owner, project, tree, remote, head, path } = await setUp();
    await runGit(tree, 'commit', '-q', '--allow-empty', '-m', 'Tagged alone');
    const tagged = await runGit(tree, 'rev-parse', 'HEAD');
    await runGit(tree, 'tag', 'main');
    await runGit(tree, 'push', '-q', remote, 'refs/tags/main');
    const client = app().as(owner);
    const starts = { main: head, 'refs/heads/main': head, 'refs/tags/main': tagged, HEAD: head };
    for (const [at, [ref, id]] of Object.entries(starts).entries()) {
      const branch = await client.post(`/projects/${project.id}/repository/branches`, { branch: `b${at}`, ref });
      expect([ref, branch.body.commit?.id]).toEqual([ref, id]);
      const tag = await client.post(path, { tag_name: `t${at}`, ref });
      expect([ref, tag.body.commit?.id]).toEqual([ref, id]);
    }
    for (const ref of ['', 'refs/heads/none', 'refs/keep-around/x', 'refs/heads/main@{1}']) {
      const branch = await client.post(`/projects/${project.id}/repository/branches`, { branch: 'none', ref });
      expect([ref, branch.status]).toEqual([ref, 400]);
    }
  });

  it('reports invalid requests, and requires a Developer', async () => {
    const { owner, project, path } = await setUp();
    const client = app().as(owner);
    const refused = async (body: Record<string, unknown>) => {
      const answer = await client.post(path, body);
      expect(answer.status).toBe(400);
      return answer.body.message ?? answer.body.error;
    };
    await client.post(path, { tag_name: 'v1', ref: 'main' });
    expect(await refused({ tag_name: 'v1', ref: 'main' })).toBe('Tag v1 already exists');
    expect(await refused({ tag_name: 'v1/x', ref: 'main' })).toContain('clashes');
    expect(await refused({ tag_name: 'x', ref: 'none' })).toBe('Target none is invalid');
    for (const name of ['-x', 'a b', 'refs/tags/x', 'f'.repeat(40), 'HEAD', '']) {
      expect(await refused({ tag_name: name, ref: 'main' })).toBe('Tag name invalid');
    }
    expect(await refused({ tag_name: 'x' })).toBe('ref is missing');
    const body = { tag_name: 'mine', ref: 'main' };
    const reporter = await memberOf(project, 20);
    for (const [user, status] of [
      [await app().make.user(), 404],
      [reporter, 403],
    ] as const) {
      expect((await app().as(user).post(path, body)).status).toBe(status);
      expect((await app().as(user).delete(`${path}/v1`)).status).toBe(status);
    }
    expect((await app().anonymous.post(path, body)).status).toBe(401);
    expect((await app().anonymous.delete(`${path}/v1`)).status).toBe(401);
    expect(namesOf(await client.get(path))).toEqual(['v1']);
    expect(
      (
        await app()
          .as(await memberOf(project, 30))
          .post(path, body)
      ).status,
    ).toBe(201);
  });

  it('is listed in three orders, searched, and paginated by offset and by keyset', async () => {
    const { owner, tree, remote, path } = await setUp();
    const names = ['v1.10.0', 'v1.2.0', 'V1.9.0', 'other'];
    for (const [at, name] of names.entries()) {
      const date = `${1_700_000_000 + at * 60} +0000`;
      await runGit(tree, 'update-ref', `refs/tags/${name}`, await dated(tree, name, date));
    }
    await runGit(tree, 'push', '-q', remote, '--tags');
    const client = app().as(owner);
    const list = async (query: string) => namesOf(await client.get(`${path}?${query}`));
    expect(await list('')).toEqual(names.toReversed());
    expect(await list('sort=asc')).toEqual(names);
    expect(await list('order_by=name&sort=asc')).toEqual(['V1.9.0', 'other', 'v1.10.0', 'v1.2.0']);
    expect(await list('order_by=version&sort=asc&search=%5Ev')).toEqual(['V1.9.0', 'v1.2.0', 'v1.10.0']);
    expect(await list('order_by=version')).toEqual(['v1.10.0', 'v1.2.0', 'other', 'V1.9.0']);
    expect(await list('search=.0%24&order_by=name')).toEqual(['v1.2.0', 'v1.10.0', 'V1.9.0']);
    expect(await list('search=OTHER')).toEqual(['other']);
    expect(await list('per_page=2&page=2&sort=asc')).toEqual(['V1.9.0', 'other']);
    expect((await client.get(`${path}?order_by=size`)).status).toBe(400);
    for (const order of ['order_by=name', 'order_by=updated', 'order_by=version&sort=asc']) {
      const seen: string[] = [];
      let next: string | null = `${path}?${order}&pagination=keyset&per_page=1`;
      while (next !== null) {
        const answer = await client.get(next);
        seen.push(...namesOf(answer));
        next = /<[^>]*\/api\/v4([^>]*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1] ?? null;
      }
      expect(seen).toEqual(await list(order));
    }
    const gone = await client.get(`${path}?pagination=keyset&page_token=none`);
    expect([gone.status, gone.body]).toEqual([400, { error: 'page_token is invalid' }]);
    const { data } = await client.graphql(
      `query($path: ID!) { project(fullPath: $path) { repository { tags(first: 2) { nodes { name message } } } } }`,
      { path: (await client.get(path.slice(0, -'/repository/tags'.length))).body.path_with_namespace },
    );
    expect(data.project.repository.tags.nodes).toEqual([
      { name: 'V1.9.0', message: 'V1.9.0' },
      { name: 'other', message: 'other' },
    ]);
  });

  it('is created as an annotated tag by a release', async () => {
    const { owner, project, head, path } = await setUp();
    const client = app().as(owner);
    const release = { tag_name: 'v2', ref: 'main', tag_message: 'Two', description: 'x' };
    const { status, body } = await client.post(`/projects/${project.id}/releases`, release);
    expect([status, body.commit.id]).toEqual([201, head]);
    expect((await client.get(`${path}/v2`)).body).toMatchObject({
      message: 'Two',
      release: { tag_name: 'v2', description: 'x' },
    });
  });
});

/** Creates an annotated tag object with this date. */
const dated = async (tree: string, name: string, date: string): Promise<string> => {
  const head = await runGit(tree, 'rev-parse', 'HEAD');
  const input = `object ${head}\ntype commit\ntag ${name}\ntagger A <a@example.org> ${date}\n\n${name}\n`;
  return runGitWith({ input }, tree, 'mktag');
};
