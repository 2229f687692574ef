import { describe, expect, it } from 'vitest';
import { commitFile, eventsOf, remoteUrl, runGit, tryGit, useFolder, workTree } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();
const folder = useFolder();

const setUp = async (attributes: Record<string, unknown> = {}) => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private', ...attributes }, owner);
  const name = `alias-${project.id}`;
  const created = await app().as(app().root).post('/project_aliases', { name, project_id: project.id });
  expect(created.status).toBe(201);
  return { owner, project, name, created };
};
const urlOf = async (name: string, user?: TestUser, scopes?: readonly string[]) =>
  user
    ? remoteUrl(app().url, { path_with_namespace: name }, 'oauth2', await app().tokenOf(user, scopes))
    : remoteUrl(app().url, { path_with_namespace: name });

describe('project aliases', () => {
  it('are created, read, listed and deleted by administrators', async () => {
    const client = app().as(app().root);
    const { project, name, created } = await setUp();
    expect(created.body).toEqual({ id: expect.any(Number), project_id: project.id, name });
    expect((await client.get(`/project_aliases/${name}`)).body).toEqual(created.body);
    expect((await client.get(`/project_aliases/${name.toUpperCase()}`)).body).toEqual(created.body);
    const byPath = await client.post('/project_aliases', {
      name: `${name}.by-path`,
      project_id: project.path_with_namespace,
    });
    expect([byPath.status, byPath.body.project_id]).toEqual([201, project.id]);
    const { body, headers } = await client.get('/project_aliases?per_page=100');
    expect(body).toEqual(expect.arrayContaining([created.body, byPath.body]));
    expect(headers.get('x-total')).toBe(String(body.length));
    const first = await client.get('/project_aliases?pagination=keyset&per_page=1');
    expect(first.body).toEqual([body[0]]);
    expect(first.headers.get('link')).toContain('cursor=');

    const deleted = await client.delete(`/project_aliases/${name}`);
    expect([deleted.status, deleted.body]).toEqual([204, '']);
    const again = await client.delete(`/project_aliases/${name}`);
    expect([again.status, again.body]).toEqual([404, { message: '404 Project Alias Not Found' }]);
    expect((await client.get(`/project_aliases/${name}`)).status).toBe(404);
    const { rows } = await app().hub.services.pool.query(
      `select kind, actor_id, project_id, payload from events where kind like 'project_alias.%'
       and payload ->> 'name' = $1 order by id`,
      [name],
    );
    expect(rows).toEqual([
      { kind: 'project_alias.created', actor_id: app().root.id, project_id: null, payload: created.body },
      { kind: 'project_alias.deleted', actor_id: app().root.id, project_id: null, payload: created.body },
    ]);
  });

  it('are refused with a clear error if they are invalid, and nothing changes', async () => {
    const client = app().as(app().root);
    const { project, name } = await setUp();
    const post = async (body: Record<string, unknown>) => {
      const answer = await client.post('/project_aliases', { project_id: project.id, ...body });
      return [answer.status, answer.body];
    };
    const taken = [400, { message: { name: ['has already been taken'] } }];
    expect(await post({ name })).toEqual(taken);
    expect(await post({ name: name.toUpperCase() })).toEqual(taken);
    expect(await post({ name: '' })).toEqual([400, { message: { name: ["can't be blank"] } }]);
    for (const bad of ['a/b', '-a', '.a', 'a b', 'a.git', 'a.', 'é', '..', 'a\tb', 'x'.repeat(256)]) {
      expect((await post({ name: bad }))[0], bad).toBe(400);
    }
    expect(await post({})).toEqual([400, { error: 'name is missing' }]);
    expect((await client.post('/project_aliases', { name: 'x' })).body).toEqual({ error: 'project_id is missing' });
    expect(await post({ name: 'x', project_id: 999_999_999 })).toEqual([404, { message: '404 Project Not Found' }]);
    expect(await post({ name: ['x'] })).toEqual([400, { error: 'name is invalid (allowed: a string)' }]);
    expect((await client.get('/project_aliases/x')).status).toBe(404);
  });

  it('are created only once by twenty concurrent requests', async () => {
    const { project } = await setUp();
    const name = `race-${project.id}`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => app().as(app().root).post('/project_aliases', { name, project_id: project.id })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 400)]);
  });

  it('are for administrators only, whether or not the alias exists', async () => {
    const { owner, project, name } = await setUp();
    for (const path of ['/project_aliases', `/project_aliases/${name}`, '/project_aliases/none']) {
      expect((await app().anonymous.get(path)).status, path).toBe(401);
      expect((await app().as(owner).get(path)).status, path).toBe(403);
    }
    const body = { name: 'mine', project_id: project.id };
    expect((await app().as(owner).post('/project_aliases', body)).status).toBe(403);
    expect((await app().anonymous.post('/project_aliases', body)).status).toBe(401);
    expect((await app().as(owner).delete(`/project_aliases/${name}`)).status).toBe(403);
    expect((await app().anonymous.delete(`/project_aliases/${name}`)).status).toBe(401);
    expect((await app().as(app().root, ['read_api']).delete(`/project_aliases/${name}`)).status).toBe(403);
    expect((await app().as(app().root).get(`/project_aliases/${name}`)).status).toBe(200);
  });

  it('are deleted with their project', async () => {
    const { owner, project, name } = await setUp();
    expect((await app().as(owner).delete(`/projects/${project.id}`)).status).toBe(202);
    await app().settle();
    await app()
      .as(app().root)
      .delete(`/projects/${project.id}`, { permanently_remove: true, full_path: project.path_with_namespace });
    await app().settle();
    expect((await app().as(app().root).get(`/project_aliases/${name}`)).status).toBe(404);
  });
});

describe('git over an alias', () => {
  it('clones, fetches and pushes as under the path, and follows renames', async () => {
    const { owner, project, name } = await setUp({ visibility: 'public' });
    const tree = await workTree(folder());
    const remote = await urlOf(name, owner);
    await runGit(tree, 'push', '-q', remote, 'main');
    expect((await eventsOf(app(), project.id)).map(({ kind }) => kind)).toEqual([
      'push.received',
      'repository.updated',
    ]);
    await app()
      .as(owner)
      .put(`/projects/${project.id}`, { path: `${project.path}-renamed` });
    const clone = `${folder()}/clone-${name}`;
    await runGit(folder(), 'clone', '-q', await urlOf(name.toUpperCase()), clone);
    const head = await commitFile(tree, 'b', 'b', 'Second');
    await runGit(tree, 'push', '-q', remote, 'main');
    await runGit(clone, 'fetch', '-q');
    expect(await runGit(clone, 'rev-parse', 'origin/main')).toBe(head);
    const stranger = await tryGit(tree, 'push', await urlOf(name, await app().make.user()), 'main:x');
    expect(stranger.stderr).toContain('not allowed to push');
    await app().as(app().root).delete(`/project_aliases/${name}`);
    expect((await tryGit(clone, 'fetch', await urlOf(name, owner))).code).not.toBe(0);
  });

  it('answers strangers for a private project as for a missing alias', async () => {
    const { owner, name } = await setUp();
    const ask = async (alias: string, token?: string) => {
      const response = await fetch(`${app().url}/${alias}.git/info/refs?service=git-upload-pack`, {
        headers: token === undefined ? {} : { 'private-token': token },
      });
      return [response.status, response.headers.get('www-authenticate'), await response.text()];
    };
    expect(await ask(name)).toEqual(await ask('none-at-all'));
    expect((await ask(name))[0]).toBe(401);
    const stranger = await app().tokenOf(await app().make.user());
    expect(await ask(name, stranger)).toEqual(await ask('none-at-all', stranger));
    expect((await ask(name, stranger))[0]).toBe(404);
    expect((await ask(name, await app().tokenOf(owner)))[0]).toBe(200);
    expect((await ask(name, await app().tokenOf(owner, ['read_user'])))[0]).toBe(403);
    // Only git resolves aliases.
    expect((await app().as(owner).get(`/projects/${name}`)).status).toBe(404);
  });
});

describe('GraphQL', () => {
  it('reads, creates and destroys aliases as REST does', async () => {
    const { owner, project, name } = await setUp();
    const root = app().as(app().root);
    const read = await root.graphql(
      `query ($name: String!) { projectAlias(name: $name) { id name project { fullPath } } none: projectAlias(name: "none") { id }
        projectAliases(first: 1) { count nodes { name } pageInfo { hasNextPage } } }`,
      { name },
    );
    expect(read.errors).toBeUndefined();
    expect(read.data).toMatchObject({
      projectAlias: { name, project: { fullPath: project.path_with_namespace } },
      none: null,
      projectAliases: { nodes: [{ name: expect.any(String) }] },
    });
    const create = `mutation ($name: String!, $path: ID!) {
      projectAliasCreate(input: { name: $name, projectPath: $path }) { projectAlias { name } errors } }`;
    const variables = { name: `${name}-2`, path: project.path_with_namespace };
    expect((await root.graphql(create, variables)).data.projectAliasCreate).toEqual({
      projectAlias: { name: `${name}-2` },
      errors: [],
    });
    expect((await root.graphql(create, variables)).data.projectAliasCreate).toEqual({
      projectAlias: null,
      errors: ['Name has already been taken'],
    });
    const destroy = `mutation ($name: String!) { projectAliasDestroy(input: { name: $name }) { projectAlias { name } errors } }`;
    expect((await app().as(owner).graphql(destroy, { name })).errors).toHaveLength(1);
    expect((await root.graphql(destroy, { name })).data.projectAliasDestroy.errors).toEqual([]);
    expect((await root.get(`/project_aliases/${name}`)).status).toBe(404);
    for (const client of [app().as(owner), app().anonymous]) {
      const refused = await client.graphql('{ projectAliases { nodes { name } } projectAlias(name: "x") { id } }');
      // The answer is null for records that the caller must not know about (reference: graphql §1).
      expect(refused).toEqual({ data: { projectAliases: null, projectAlias: null } });
      expect((await client.graphql(create, variables)).errors).toHaveLength(1);
    }
  });
});
