import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { importProject } from '#domains/transfers/jobs.ts';
import { commitFile, copyOf, remoteOf, runGit, tryGit, useFolder, workTree } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import type { TestProject } from '../support/factories.ts';

const app = useApp();
const folder = useFolder();

/** A work tree with two branches and a tag. */
let code: string;
beforeAll(async () => {
  code = await workTree(folder());
  await runGit(code, 'tag', '-a', 'v1', '-m', 'One');
  await runGit(code, 'checkout', '-q', '-b', 'topic');
  await commitFile(code, 'topic.txt', 'topic\n', 'On a topic');
});

/** Creates a public project with two branches and a tag. Tests that commit to them copy the work tree. */
const withCode = async (owner: TestUser, attributes: Readonly<Record<string, unknown>> = {}) => {
  const project = await app().make.project({ visibility: 'public', description: 'The source', ...attributes }, owner);
  await pushTree(app(), project, owner, code, 'main', 'topic', 'v1');
  return { project, tree: () => copyOf(folder(), code) };
};

const fork = (user: TestUser, source: { id: number }, body: Record<string, unknown> = {}) =>
  app().as(user).post(`/projects/${source.id}/fork`, body);
const read = async (user: TestUser, project: { id: number }) =>
  (await app().as(user).get(`/projects/${project.id}`)).body;
const directoryOf = async ({ id }: { id: number }) => {
  const { services } = app().hub;
  const row = await services.db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  return join(services.config.dataDir, 'repositories', row.disk_path);
};
const refsOf = async (project: TestProject | { path_with_namespace: string }, user: TestUser) =>
  (await runGit(folder(), 'ls-remote', await remoteOf(app(), project, user)))
    .split('\n')
    .map((line) => line.split('\t')[1]);

describe('a fork', () => {
  it('exists at once, and gets the whole repository when the import is done', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const { project } = await withCode(owner, { merge_method: 'ff', topics: ['mine'] });
    const made = await fork(forker, project);
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({
      path_with_namespace: `${forker.username}/${project.path}`,
      name: project.path,
      description: 'The source',
      visibility: 'public',
      merge_method: 'ff',
      topics: [],
      import_status: 'scheduled',
      import_type: null,
      import_url: null,
      mr_default_target_self: false,
      forks_count: 0,
      forked_from_project: {
        id: project.id,
        path_with_namespace: project.path_with_namespace,
        forks_count: 1,
        namespace: { full_path: owner.username },
      },
    });
    expect((await read(owner, project)).forks_count).toBe(1);
    await app().settle();
    expect(await read(forker, made.body)).toMatchObject({
      import_status: 'finished',
      import_error: null,
      empty_repo: false,
      default_branch: 'main',
    });
    expect(await refsOf(made.body, forker)).toEqual(await refsOf(project, owner));
    const client = app().as(forker);
    const branches = (await client.get(`/projects/${made.body.id}/repository/branches`)).body;
    expect(branches.map(({ name }: { name: string }) => name)).toEqual(['main', 'topic']);
    expect((await client.get(`/projects/${made.body.id}/protected_branches`)).body).toMatchObject([{ name: 'main' }]);
    expect((await client.get(`/projects/${made.body.id}?statistics=true`)).body.statistics).toMatchObject({
      commit_count: 1,
      repository_size: expect.any(Number),
    });
    expect((await client.get(`/projects/${made.body.id}/import`)).body).toMatchObject({
      import_status: 'finished',
      import_type: null,
    });
    // A fork does not count as an import by the caller.
    expect((await client.get('/projects?imported=true')).body).toEqual([]);
  });

  it('is independent of its source, and its source of it', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const { project, tree: copied } = await withCode(owner);
    const tree = copied();
    const { body: forked } = await fork(forker, project);
    const { body: second } = await fork(await app().make.user(), project);
    await app().settle();
    const [from, to] = [await directoryOf(project), await directoryOf(forked)];
    expect(await readdir(join(to, 'objects', 'info')).catch(() => [])).not.toContain('alternates');
    const objects = (await readdir(join(to, 'objects'), { recursive: true, withFileTypes: true })).filter((each) =>
      each.isFile(),
    );
    expect(objects.length).toBeGreaterThan(0);
    // The object files are hard links, so a fork takes almost no space.
    for (const each of objects) expect((await stat(join(each.parentPath, each.name))).nlink).toBeGreaterThan(1);

    // Rewrite the history of the source and prune the old objects.
    await runGit(tree, 'checkout', '-q', '--orphan', 'fresh');
    await commitFile(tree, 'other.txt', 'other\n', 'Anew');
    await runGit(from, 'fetch', '-q', tree, '+fresh:refs/heads/main', '+fresh:refs/heads/topic');
    await runGit(from, 'update-ref', '-d', 'refs/tags/v1');
    await runGit(from, 'gc', '-q', '--prune=now');
    await runGit(to, 'fsck', '--full', '--strict');
    await runGit(to, 'repack', '-q', '-a', '-d');
    await runGit(from, 'fsck', '--full', '--strict');
    expect((await tryGit(to, 'show', 'topic:topic.txt')).stdout).toBe('topic\n');

    expect((await app().as(owner).delete(`/projects/${project.id}`)).status).toBe(202);
    await app().settle();
    await expect(stat(from)).rejects.toThrow();
    await runGit(to, 'fsck', '--full', '--strict');
    const clone = join(folder(), `clone-${forked.id}`);
    await runGit(folder(), 'clone', '-q', await remoteOf(app(), forked, forker), clone);
    expect(await runGit(clone, 'log', '-1', '--format=%s')).toBe('First commit');
    const left = await read(forker, forked);
    expect([left.import_status, left.forked_from_project]).toEqual(['finished', undefined]);
    // Both forks stay in one network after its root is deleted.
    const { db } = app().hub.services;
    const rows = await db
      .selectFrom('projects')
      .innerJoin('fork_networks', 'fork_networks.id', 'projects.fork_network_id')
      .select(['projects.id', 'fork_networks.id as network', 'root_project_id'])
      .where('projects.id', 'in', [forked.id, second.id])
      .execute();
    expect(new Set(rows.map((row) => row.network)).size).toBe(1);
    expect(rows.map((row) => row.root_project_id)).toEqual([null, null]);
    for (const { id } of rows) await app().as(app().root).delete(`/projects/${id}`);
    const network = rows[0]?.network ?? 0;
    expect(await db.selectFrom('fork_networks').select('id').where('id', '=', network).execute()).toEqual([]);
  });

  it('takes the path of the CI file, also one from before paths were checked', async () => {
    const [owner, forker] = [await app().make.user(), await app().make.user()];
    const { project } = await withCode(owner);
    const { db } = app().hub.services;
    await db.updateTable('projects').set({ ci_config_path: '../x.yml' }).where('id', '=', project.id).execute();
    const made = await fork(forker, project);
    expect([made.status, made.body.ci_config_path]).toEqual([201, '../x.yml']);
  });

  it('can have only one branch, and its own name, path, description and visibility', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const { project } = await withCode(owner);
    const group = await app().make.group({ visibility: 'public' }, forker);
    const made = await fork(forker, project, {
      namespace_path: group.full_path,
      name: 'Another name',
      path: `own-${project.path}`,
      description: 'Mine',
      visibility: 'private',
      branches: 'topic',
      mr_default_target_self: true,
    });
    expect(made.body).toMatchObject({
      path_with_namespace: `${group.full_path}/own-${project.path}`,
      name: 'Another name',
      description: 'Mine',
      visibility: 'private',
      default_branch: 'topic',
      mr_default_target_self: true,
    });
    await app().settle();
    expect(await refsOf(made.body, forker)).toEqual(['HEAD', 'refs/heads/topic']);
    // The fork is less visible than its source, so callers who see only the source learn nothing of it.
    expect((await read(owner, project)).forks_count).toBe(0);
    await runGit(await directoryOf(made.body), 'fsck', '--full', '--strict');
    const nothing = await fork(forker, project, { path: 'x', name: 'x', branches: 'nothing' });
    expect([nothing.status, nothing.body]).toEqual([
      400,
      { message: { branches: ['must be a branch of the project'] } },
    ]);
  });

  it('is empty if its source is empty', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'public' }, owner);
    const { body } = await fork(await app().make.user(), project);
    await app().settle();
    expect(await read(owner, body)).toMatchObject({ import_status: 'finished', empty_repo: true });
  });

  it('refuses pushes until its repository is complete', async () => {
    const owner = await app().make.user();
    const { project, tree: copied } = await withCode(owner);
    const tree = copied();
    const { body } = await fork(owner, project, { path: `again-${project.path}`, name: `again ${project.path}` });
    const { db } = app().hub.services;
    await app().settle();
    await db.updateTable('project_imports').set({ status: 'started' }).where('project_id', '=', body.id).execute();
    const refused = await tryGit(tree, 'push', '-q', await remoteOf(app(), body, owner), 'topic:refs/heads/new');
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('still being imported or forked');
    await db.updateTable('project_imports').set({ status: 'finished' }).where('project_id', '=', body.id).execute();
    expect((await tryGit(tree, 'push', '-q', await remoteOf(app(), body, owner), 'topic:refs/heads/new')).code).toBe(0);
  });

  it('fails at once with a plain reason if git rejects its branch', async () => {
    const owner = await app().make.user();
    const { project, tree: copied } = await withCode(owner);
    const tree = copied();
    await commitFile(tree, '.gitmodules', '[submodule "../../x"]\n\tpath = x\n', 'Before that was looked at');
    await runGit(await directoryOf(project), 'fetch', '-q', tree, 'topic:refs/heads/ill');
    const { body } = await fork(await app().make.user(), project, { branches: 'ill' });
    await app().settle();
    const { services } = app().hub;
    const { status, import_error } = await services.db
      .selectFrom('project_imports')
      .select(['status', 'import_error'])
      .where('project_id', '=', body.id)
      .executeTakeFirstOrThrow();
    expect([status, import_error]).toEqual(['failed', expect.stringContaining('is broken')]);
  });

  it('fails with a plain reason if the rights are lost before the job runs', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const { project } = await withCode(owner);
    const group = await app().make.group({ visibility: 'public' }, forker);
    const { db } = app().hub.services;
    // Close the source first, and then let the job run again.
    const { body } = await fork(forker, project, { namespace_id: group.id });
    await app().settle();
    await app().as(owner).put(`/projects/${project.id}`, { visibility: 'private' });
    await db.updateTable('project_imports').set({ status: 'scheduled' }).where('project_id', '=', body.id).execute();
    const { id } = await db
      .selectFrom('project_imports')
      .select('id')
      .where('project_id', '=', body.id)
      .executeTakeFirstOrThrow();
    await app()
      .context()
      .transaction(async (tx) => tx.enqueue(importProject, { import_id: id }));
    await app().settle();
    expect((await app().as(forker).get(`/projects/${body.id}/import`)).body).toMatchObject({
      import_status: 'failed',
      import_error: 'The project that was forked is gone.',
    });
  });
});

describe('forking', () => {
  it('is allowed to users who may read the code, within the forking level of the project', async () => {
    const owner = await app().make.user();
    const stranger = await app().make.user();
    const { project } = await withCode(owner);
    expect((await app().anonymous.post(`/projects/${project.id}/fork`)).status).toBe(401);
    expect((await app().as(stranger, ['read_api']).post(`/projects/${project.id}/fork`)).status).toBe(403);

    const hidden = await app().make.project({ visibility: 'private' }, owner);
    expect((await fork(stranger, hidden)).status).toBe(404);
    const guest = await app().make.user();
    await app().make.projectMember(hidden, guest, 10);
    expect((await fork(guest, hidden)).status).toBe(403);
    const reporter = await app().make.user();
    await app().make.projectMember(hidden, reporter, 20);
    expect((await fork(reporter, hidden)).status).toBe(201);

    // Allow only members, and then nobody.
    await app().as(owner).put(`/projects/${project.id}`, { forking_access_level: 'private' });
    expect((await fork(stranger, project)).status).toBe(404);
    await app().make.projectMember(project, guest, 10);
    expect((await fork(guest, project)).status).toBe(201);
    await app().as(owner).put(`/projects/${project.id}`, { forking_access_level: 'disabled' });
    expect((await fork(owner, project, { path: 'elsewhere', name: 'elsewhere' })).status).toBe(404);
    await app().settle();
  });

  it('requires a namespace where the user may create projects', async () => {
    const owner = await app().make.user();
    const { project } = await withCode(owner);
    const forker = await app().make.user();
    const open = await app().make.group({ visibility: 'public' }, owner);
    const closed = await app().make.group({ visibility: 'private' }, owner);
    expect((await fork(forker, project, { namespace_id: open.id })).status).toBe(403);
    const unknown = await fork(forker, project, { namespace_id: closed.id });
    expect([unknown.status, unknown.body]).toEqual([404, { message: '404 Namespace Not Found' }]);
    expect((await fork(forker, project, { namespace: owner.username })).status).toBe(403);
    expect((await fork(forker, project, { namespace: open.full_path, namespace_id: open.id })).status).toBe(400);

    expect((await fork(forker, project)).status).toBe(201);
    const twice = await fork(forker, project);
    expect([twice.status, twice.body]).toEqual([
      409,
      { message: { name: ['has already been taken'], path: ['has already been taken'] } },
    ]);
    expect((await fork(forker, project, { path: '../x', name: 'x' })).status).toBe(400);
    const full = await app().make.user({ projects_limit: 0 });
    const limited = await fork(full, project);
    expect([limited.status, Object.keys(limited.body.message)]).toEqual([400, ['limit_reached']]);
    expect((await read(owner, project)).forks_count).toBe(1);
    await app().settle();
  });

  it('never gives more visibility than the source or the group has', async () => {
    const owner = await app().make.user();
    const { project } = await withCode(owner, { visibility: 'internal' });
    const forker = await app().make.user();
    const wider = await fork(forker, project, { visibility: 'public' });
    expect([wider.status, wider.body.message]).toEqual([
      400,
      { visibility_level: ['public is not allowed since the fork source project has lower visibility.'] },
    ]);
    const group = await app().make.group({ visibility: 'private' }, forker);
    expect((await fork(forker, project, { namespace_id: group.id })).body.visibility).toBe('private');
    expect(
      (await fork(forker, project, { namespace_id: group.id, path: 'z', name: 'z', visibility: 'internal' })).status,
    ).toBe(400);
    await app().settle();
  });

  it('succeeds once for twenty concurrent requests', async () => {
    const owner = await app().make.user();
    const { project } = await withCode(owner);
    const forker = await app().make.user();
    const answers = await Promise.all(Array.from({ length: 20 }, () => fork(forker, project)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, ...Array.from({ length: 19 }, () => 409)]);
    expect((await read(owner, project)).forks_count).toBe(1);
    await app().settle();
    const others = await Promise.all(Array.from({ length: 6 }, () => app().make.user()));
    await Promise.all(others.map((user) => fork(user, project)));
    expect((await read(owner, project)).forks_count).toBe(7);
    await app().settle();
  });
});

describe('information about a fork', () => {
  it('is limited to what each caller may see', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const stranger = await app().make.user();
    const { project } = await withCode(owner);
    const { body: open } = await fork(forker, project);
    const { body: closed } = await fork(forker, project, { path: 'closed', name: 'closed', visibility: 'private' });
    await app().settle();
    const forks = async (client: ReturnType<typeof app>['anonymous']) => {
      const { body, headers } = await client.get(`/projects/${project.id}/forks?order_by=id&sort=asc`);
      expect(headers.get('x-total')).toBe(String(body.length));
      return body.map(({ id }: { id: number }) => id);
    };
    expect(await forks(app().anonymous)).toEqual([open.id]);
    expect(await forks(app().as(stranger))).toEqual([open.id]);
    expect(await forks(app().as(owner))).toEqual([open.id]);
    expect(await forks(app().as(forker))).toEqual([open.id, closed.id]);
    expect((await app().as(forker).get(`/projects/${project.id}/forks?search=closed&simple=true`)).body).toMatchObject([
      { id: closed.id },
    ]);
    expect((await app().anonymous.get(`/projects/${project.id}/forks`)).body[0]).not.toHaveProperty('visibility');
    expect((await read(stranger, project)).forks_count).toBe(1);

    // The source is closed with its forks. Nothing of it shows, and the fork counts follow.
    await app().as(owner).put(`/projects/${project.id}`, { visibility: 'private' });
    expect((await app().as(stranger).get(`/projects/${open.id}`)).status).toBe(404);
    expect(await read(forker, open)).not.toHaveProperty('forked_from_project');
    expect(JSON.stringify((await app().as(stranger).get(`/projects?search=${project.path}`)).body)).not.toContain(
      project.path_with_namespace,
    );
    expect((await app().as(stranger).get(`/projects/${project.id}/forks`)).status).toBe(404);
    expect((await read(app().root, open)).forked_from_project.id).toBe(project.id);
    // It shows the source with the role that the reader has there.
    const seenByOwner = await read(app().root, open);
    expect(seenByOwner.forked_from_project).toMatchObject({ default_branch: 'main' });
    expect((await read(owner, project)).forks_count).toBe(2);
    await app().as(owner).put(`/projects/${project.id}`, { visibility: 'public' });
    expect((await read(stranger, project)).forks_count).toBe(0);
    await app().as(forker).put(`/projects/${open.id}`, { visibility: 'public' });
    expect((await read(stranger, project)).forks_count).toBe(1);
    await app().as(forker).put(`/projects/${closed.id}`, { visibility: 'public' });
    expect((await read(stranger, project)).forks_count).toBe(2);
    await app().as(forker).delete(`/projects/${closed.id}`);
    expect((await read(stranger, project)).forks_count).toBe(1);
  });

  it('is sent to readers of the project, with details only of visible forks', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const { project } = await withCode(owner);
    const { body: open } = await fork(forker, project);
    await fork(forker, project, { path: 'closed', name: 'closed', visibility: 'private' });
    await app().settle();
    const { rows } = await app().hub.services.pool.query(
      `select payload from events where kind = 'project.forked' and project_id = $1 order by id`,
      [project.id],
    );
    expect(rows.map(({ payload }) => payload)).toEqual([
      {
        user_id: forker.id,
        forks_count: 1,
        fork: { id: open.id, path_with_namespace: open.path_with_namespace },
      },
      { user_id: null, forks_count: 1, fork: null },
    ]);
    const { rows: created } = await app().hub.services.pool.query(
      `select kind from events where project_id = $1 order by id`,
      [open.id],
    );
    expect(created.map(({ kind }) => kind).slice(0, 2)).toEqual(['project.created', 'import.scheduled']);
  });

  it('includes whether a caller may propose changes', async () => {
    const owner = await app().make.user();
    const { project } = await withCode(owner);
    const stranger = await app().make.user();
    expect((await read(stranger, project)).can_create_merge_request_in).toBe(true);
    await app().as(owner).put(`/projects/${project.id}`, { merge_requests_access_level: 'private' });
    expect((await read(stranger, project)).can_create_merge_request_in).toBe(false);
    await app().as(owner).put(`/projects/${project.id}`, { merge_requests_access_level: 'enabled' });
    await app().as(owner).post(`/projects/${project.id}/archive`);
    expect((await read(stranger, project)).can_create_merge_request_in).toBe(false);
  });
});

describe('the fork relation', () => {
  it('is removed and created by owners', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const { project } = await withCode(owner);
    const { body: forked } = await fork(forker, project);
    await app().settle();
    const { body: grandchild } = await fork(owner, forked, { path: 'grandchild', name: 'grandchild' });
    const { body: again } = await fork(owner, forked, { path: 'grandchild2', name: 'grandchild2' });
    await app().settle();
    const stranger = await app().make.user();
    expect((await app().anonymous.delete(`/projects/${forked.id}/fork`)).status).toBe(401);
    expect((await app().as(stranger).delete(`/projects/${forked.id}/fork`)).status).toBe(403);
    expect((await app().as(owner).delete(`/projects/${forked.id}/fork`)).status).toBe(403);
    expect((await read(owner, project)).forks_count).toBe(1);

    expect((await app().as(forker).delete(`/projects/${forked.id}/fork`)).status).toBe(204);
    expect((await app().as(forker).delete(`/projects/${forked.id}/fork`)).status).toBe(304);
    expect(await read(owner, forked)).not.toHaveProperty('forked_from_project');
    expect((await read(owner, project)).forks_count).toBe(0);
    // Forks of the fork stay with it.
    expect((await read(owner, grandchild)).forked_from_project.id).toBe(forked.id);
    const networks = async (...ids: number[]) =>
      (
        await app()
          .hub.services.db.selectFrom('projects')
          .select(['id', 'fork_network_id'])
          .where('id', 'in', ids)
          .execute()
      ).map(({ fork_network_id }) => fork_network_id);
    expect(new Set(await networks(forked.id, grandchild.id, again.id)).size).toBe(1);
    expect(new Set(await networks(forked.id, project.id)).size).toBe(2);

    const link = (user: TestUser, id: number, from: number) => app().as(user).post(`/projects/${id}/fork/${from}`);
    expect((await link(stranger, forked.id, project.id)).status).toBe(403);
    expect((await link(forker, forked.id, grandchild.id)).status).toBe(400);
    expect((await link(forker, forked.id, forked.id)).status).toBe(400);
    const hidden = await app().make.project({}, owner);
    expect((await link(forker, forked.id, hidden.id)).status).toBe(404);
    const linked = await link(forker, forked.id, project.id);
    expect([linked.status, linked.body.forked_from_project.id]).toEqual([201, project.id]);
    expect((await link(forker, forked.id, project.id)).status).toBe(409);
    expect((await read(owner, project)).forks_count).toBe(1);
    expect(new Set(await networks(forked.id, grandchild.id, again.id, project.id)).size).toBe(1);
  });

  it('survives a transfer of the source, and ends with its deletion', async () => {
    const owner = await app().make.user();
    const forker = await app().make.user();
    const { project } = await withCode(owner);
    const { body: forked } = await fork(forker, project);
    await app().settle();
    const group = await app().make.group({ visibility: 'public' }, owner);
    expect((await app().as(owner).put(`/projects/${project.id}/transfer`, { namespace: group.id })).status).toBe(200);
    expect((await read(forker, forked)).forked_from_project.path_with_namespace).toBe(
      `${group.full_path}/${project.path}`,
    );
    expect((await read(owner, project)).forks_count).toBe(1);
    // Deleting the group also deletes the source.
    expect((await app().as(owner).delete(`/groups/${group.id}`)).status).toBe(202);
    await app().settle();
    expect(await read(forker, forked)).not.toHaveProperty('forked_from_project');
  });
});
