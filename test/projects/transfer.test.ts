import { describe, expect, it } from 'vitest';
import { findEvents } from '../groups/find-events.ts';
import { remoteOf, tryGit } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();

describe('PUT /projects/:id/transfer', () => {
  it('moves everything, redirects from the old path, and drops the members of the old group', async () => {
    const { make } = app();
    const [owner, before, after] = [await make.user(), await make.user(), await make.user()];
    const [from, to] = [await make.group({}, owner), await make.group({}, owner)];
    await make.groupMember(from, before, 30);
    await make.groupMember(to, after, 30);
    const invited = await make.group({}, owner);
    const client = app().as(owner);
    const project = await make.project(
      { namespace_id: from.id, initialize_with_readme: true, topics: ['kept'] },
      owner,
    );
    const direct = await make.user();
    await make.projectMember(project, direct, 20);
    await client.post(`/projects/${project.id}/share`, { group_id: invited.id, group_access: 20 });
    await client.post(`/projects/${project.id}/star`);
    await app().settle();
    const size = async (group: { readonly id: number }) =>
      (await app().as(app().root).get(`/groups/${group.id}?statistics=true&with_projects=false`)).body.statistics
        .repository_size;
    const bytes = await size(from);
    expect(bytes).toBeGreaterThan(0);
    const moved = await client.put(`/projects/${project.id}/transfer`, { namespace: to.full_path });
    expect(moved).toMatchObject({
      status: 200,
      body: {
        path_with_namespace: `${to.full_path}/${project.path}`,
        namespace: { id: to.id },
        topics: ['kept'],
        star_count: 1,
        shared_with_groups: [{ group_id: invited.id }],
      },
    });
    expect([await size(from), await size(to)]).toEqual([0, bytes]);
    const status = async (user: TestUser) => (await app().as(user).get(`/projects/${project.id}`)).status;
    expect([await status(before), await status(after), await status(direct)]).toEqual([404, 200, 200]);
    const old = await client.get(`/projects/${encodeURIComponent(project.path_with_namespace)}`);
    expect([old.status, old.headers.get('location')]).toEqual([301, `${app().url}/api/v4/projects/${project.id}`]);
    // git still clones from the old URL.
    expect((await tryGit('/', 'ls-remote', await remoteOf(app(), project, owner))).stdout).toContain('refs/heads/main');
    const events = await findEvents(app(), 'Project', project.id);
    const event = events.find(({ kind }) => kind === 'project.transferred');
    expect(event?.payload).toMatchObject({
      changes: {
        // The event omits the former path, because members of only the new group must not see it.
        full_path: { current: `${to.full_path}/${project.path}` },
      },
    });
    // The old path is free for another project.
    const next = await client.post('/projects', { path: project.path, namespace_id: from.id });
    expect(next.status).toBe(201);
  });

  it('leaves no labels and milestones of the groups that it left', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const top = await app().make.group({}, owner);
    const secret = await app().make.group({ parent_id: top.id }, owner);
    const to = await app().make.group({}, owner);
    await client.post(`/groups/${secret.id}/labels`, { name: 'secret', color: '#112233', description: 'Kept' });
    await client.post(`/groups/${top.id}/labels`, { name: 'bug', color: '#112233' });
    await client.post(`/groups/${to.id}/labels`, { name: 'bug', color: '#ffffff' });
    const milestone = (
      await client.post(`/groups/${secret.id}/milestones`, { title: 'Launch', due_date: '2026-12-24' })
    ).body;
    const project = await app().make.project({ namespace_id: secret.id }, owner);
    const issues = `/projects/${project.id}/issues`;
    await client.post(issues, { title: 'One', labels: 'secret,bug,own', milestone_id: milestone.id });
    const read = async () => (await client.get(`${issues}/1?with_labels_details=true`)).body;
    const labels = async () =>
      (await client.get(`/projects/${project.id}/labels`)).body.map(
        (each: { name: string; color: string; is_project_label: boolean }) =>
          `${each.name} ${each.color} ${each.is_project_label}`,
      );
    // A group that moves takes its own labels and milestones along, and loses those above it.
    expect((await client.post(`/groups/${secret.id}/transfer`)).status).toBe(201);
    expect(await read()).toMatchObject({ labels: ['bug', 'own', 'secret'], milestone: { id: milestone.id } });
    expect(await labels()).toEqual(['bug #112233 true', 'own #6699cc true', 'secret #112233 false']);
    await client.delete(`/groups/${top.id}`);

    const other = await app().make.project({ namespace_id: secret.id }, owner);
    await client.post(`/projects/${other.id}/issues`, { title: 'Stays', labels: 'secret', milestone_id: milestone.id });
    expect((await client.delete(`/projects/${project.id}/labels/bug`)).status).toBe(204);
    await client.post(`/groups/${secret.id}/labels`, { name: 'bug', color: '#112233' });
    await client.put(`${issues}/1`, { add_labels: 'bug' });
    expect((await client.put(`/projects/${project.id}/transfer`, { namespace: to.id })).status).toBe(200);
    expect(await labels()).toEqual(['bug #ffffff false', 'own #6699cc true', 'secret #112233 true']);
    expect(await read()).toMatchObject({
      labels: ['bug', 'own', 'secret'],
      milestone: { title: 'Launch', due_date: '2026-12-24', project_id: project.id, iid: 1 },
    });
    expect((await client.get(`/projects/${other.id}/issues/1`)).body).toMatchObject({
      labels: ['secret'],
      milestone: { id: milestone.id },
    });
    await client.delete(`/groups/${secret.id}`);
    await app().settle();
    expect(await read()).toMatchObject({ labels: ['bug', 'own', 'secret'], milestone: { title: 'Launch' } });
  });

  it('keeps references to the old path for those who can see the project', async () => {
    const [owner, stranger] = [await app().make.user(), await app().make.user()];
    const client = app().as(owner);
    const [from, to] = [await app().make.group({}, owner), await app().make.group({}, owner)];
    const project = await app().make.project({ namespace_id: from.id }, owner);
    await client.post(`/projects/${project.id}/issues`, { title: 'Target' });
    await client.put(`/projects/${project.id}/transfer`, { namespace: to.id });
    await client.put(`/groups/${to.id}`, { path: `${to.path}-renamed` });
    const old = [project.path_with_namespace, `${to.full_path}/${project.path}`];
    const text = old.map((path) => `${path}#1 and ${app().url}/${path}/-/issues/1`).join(' and ');
    const html = async (user: TestUser): Promise<string> =>
      (await app().as(user).post('/markdown', { text, gfm: true })).body.html;
    const target = `${app().url}/${to.full_path}-renamed/${project.path}/-/issues/1`;
    expect((await html(owner)).split(`<a href="${target}" title="Target"`)).toHaveLength(5);
    expect(await html(stranger)).not.toContain('Target');
  });

  it('requires an Owner who may create projects in the target', async () => {
    const { make } = app();
    const [owner, maintainer, other] = [await make.user(), await make.user(), await make.user()];
    const group = await make.group({ visibility: 'public' }, other);
    const project = await make.project({ visibility: 'internal' }, owner);
    await make.projectMember(project, maintainer, 40);
    const move = async (user: TestUser, namespace: string | number) =>
      (await app().as(user).put(`/projects/${project.id}/transfer`, { namespace })).status;
    expect(await move(maintainer, maintainer.username)).toBe(403);
    expect(await move(owner, group.id)).toBe(403);
    expect(await move(owner, other.username)).toBe(403);
    expect(await move(owner, 'no/where')).toBe(404);
    expect(await move(owner, owner.username)).toBe(400);
    expect((await app().anonymous.put(`/projects/${project.id}/transfer`, { namespace: group.id })).status).toBe(401);
    expect((await app().as(owner).put(`/projects/${project.id}/transfer`, {})).status).toBe(400);
    const closed = await make.group({ visibility: 'private' }, owner);
    expect(await app().as(owner).put(`/projects/${project.id}/transfer`, { namespace: closed.id })).toMatchObject({
      status: 400,
      body: { message: { visibility_level: [expect.stringContaining('not allowed since the group is private')] } },
    });
    const full = await make.group({ visibility: 'public' }, owner);
    await make.project({ path: project.path, namespace_id: full.id }, owner);
    expect(await app().as(owner).put(`/projects/${project.id}/transfer`, { namespace: full.id })).toMatchObject({
      status: 400,
      body: { message: { path: ['has already been taken'] } },
    });
    const { body } = await app().as(owner).get(`/projects/${project.id}`);
    expect(body.path_with_namespace).toBe(project.path_with_namespace);
  });

  it('lets only administrators move projects with restricted visibilities, over REST and GraphQL', async () => {
    const { make, as, root } = app();
    const owner = await make.user();
    const group = await make.group({ visibility: 'public' }, owner);
    const project = await make.project({ visibility: 'public' }, owner);
    const quiet = await make.project({ visibility: 'private' }, owner);
    const transfer = (id: number) => as(owner).put(`/projects/${id}/transfer`, { namespace: group.id });
    await as(root).put('/application/settings', { restricted_visibility_levels: ['public'] });
    try {
      const problem = 'public has been restricted by your administrator';
      expect(await transfer(project.id)).toMatchObject({
        status: 400,
        body: { message: { visibility_level: [problem] } },
      });
      const { data } = await as(owner).graphql(
        `mutation { projectTransfer(input: { fullPath: "${project.path_with_namespace}", namespacePath: "${group.full_path}" }) { errors } }`,
      );
      expect(data.projectTransfer.errors).toEqual([`Visibility level ${problem}`]);
      const { body } = await as(owner).get(`/projects/${project.id}`);
      expect(body.path_with_namespace).toBe(project.path_with_namespace);
      expect((await transfer(quiet.id)).status).toBe(200);
      const byRoot = await as(root).put(`/projects/${project.id}/transfer`, { namespace: group.id });
      expect(byRoot.status).toBe(200);
    } finally {
      await as(root).put('/application/settings', { restricted_visibility_levels: [] });
    }
  });
});
