import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

/** Creates a private project in a group, with one user per role. */
const scene = async () => {
  const { make, as } = app();
  const owner = await make.user();
  const group = await make.group({}, owner);
  const project = await make.project({ namespace_id: group.id }, owner);
  const [guest, planner, stranger] = [await make.user(), await make.user(), await make.user()];
  await make.projectMember(project, guest, 10);
  await make.projectMember(project, planner, 15);
  return { owner, group, project, guest: as(guest), planner: as(planner), stranger: as(stranger), client: as(owner) };
};

describe('labels of a project', () => {
  it('never stand for their project, whatever their name makes of a path', async () => {
    const { project, planner, client } = await scene();
    const path = `/api/v4/projects/${project.id}`;
    for (const [name, sent] of [
      ['..', `${path}/`],
      ['.', `${path}/labels/`],
    ]) {
      const { status, body: label } = await planner.post(`${path}/labels`, { name, color: 'red' });
      expect(status).toBe(201);
      // Clients resolve dots before they send a path.
      const resolved = new URL(`${app().url}${path}/labels/${name}`).pathname;
      expect(resolved).toBe(sent);
      expect((await client.delete(resolved)).status).toBe(404);
      expect((await client.put(resolved, { name, description: 'of the label' })).status).toBe(404);
      expect((await client.get(path)).body).toMatchObject({ marked_for_deletion_on: null, description: null });
      expect((await client.delete(`${path}/labels/${label.id}`)).status).toBe(204);
    }
  });

  it('creates, reads by id and name, changes, lists and deletes labels', async () => {
    const { project, client } = await scene();
    const path = `/projects/${project.id}/labels`;
    const created = await client.post(path, { name: 'bug, no', color: '#d9534f' });
    expect(created).toMatchObject({ status: 400, body: { message: { title: ['is invalid'] } } });
    const made = await client.post(path, {
      name: 'bug',
      color: 'DarkSeaGreen',
      description: 'broken <b>',
      priority: 1,
    });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      id: made.body.id,
      name: 'bug',
      color: '#8fbc8f',
      text_color: '#FFFFFF',
      description: 'broken <b>',
      description_html: 'broken &lt;b&gt;',
      archived: false,
      subscribed: false,
      priority: 1,
      is_project_label: true,
    });
    expect((await client.get(`${path}/${made.body.id}`)).body.name).toBe('bug');
    expect((await client.get(`${path}/bug`)).body).toMatchObject({
      open_issues_count: 0,
      open_merge_requests_count: 0,
    });
    const changed = await client.put(`${path}/bug`, { new_name: 'defect', color: '#fff', priority: null });
    expect(changed.body).toMatchObject({ name: 'defect', color: '#fff', text_color: '#1F1E24', priority: null });
    expect((await client.put(`${path}/defect`, {})).status).toBe(400);
    expect((await client.post(path, { name: 'alpha', color: 'red' })).status).toBe(201);
    const list = await client.get(`${path}?with_counts=true`);
    expect(list.body.map((each: { name: string }) => each.name)).toEqual(['alpha', 'defect']);
    expect(list.headers.get('x-total')).toBe('2');
    expect(list.body[0].closed_issues_count).toBe(0);
    expect((await client.get(`${path}?search=defe`)).body).toHaveLength(1);
    expect((await client.delete(`${path}/defect`)).status).toBe(204);
    expect(await client.get(`${path}/defect`)).toMatchObject({
      status: 404,
      body: { message: '404 Label Not Found' },
    });
  });

  it('requires a title that is unique up to the top-level group, and a valid colour', async () => {
    const { project, group, client } = await scene();
    expect((await client.post(`/groups/${group.id}/labels`, { name: 'shared', color: 'blue' })).status).toBe(201);
    expect(await client.post(`/projects/${project.id}/labels`, { name: 'shared', color: 'blue' })).toMatchObject({
      status: 409,
      body: { message: 'Label already exists' },
    });
    await client.post(`/projects/${project.id}/labels`, { name: 'own', color: 'blue' });
    expect(await client.put(`/projects/${project.id}/labels/own`, { new_name: 'shared' })).toMatchObject({
      status: 400,
      body: { message: { title: ['has already been taken'] } },
    });
    expect(await client.post(`/projects/${project.id}/labels`, { name: 'x', color: 'blurple' })).toMatchObject({
      status: 400,
      body: { message: { color: ['must be a valid color code'] } },
    });
    // A group label appears in the project but can only be changed in the group.
    const seen = await client.get(`/projects/${project.id}/labels`);
    expect(
      seen.body.map((each: { name: string; is_project_label: boolean }) => [each.name, each.is_project_label]),
    ).toEqual([
      ['own', true],
      ['shared', false],
    ]);
    expect((await client.get(`/projects/${project.id}/labels?include_ancestor_groups=false`)).body).toHaveLength(1);
    expect((await client.delete(`/projects/${project.id}/labels/shared`)).status).toBe(404);
    expect((await client.delete(`/groups/${group.id}/labels/shared`)).status).toBe(204);
  });

  it('lets members read labels and Planners change them', async () => {
    const { project, client, guest, planner, stranger } = await scene();
    const path = `/projects/${project.id}/labels`;
    const label = { name: 'a', color: 'red' };
    expect((await app().anonymous.get(path)).status).toBe(404);
    expect((await app().anonymous.post(path, label)).status).toBe(401);
    expect(await stranger.get(path)).toMatchObject({ status: 404, body: { message: '404 Project Not Found' } });
    expect((await stranger.post(path, label)).status).toBe(404);
    expect((await guest.get(path)).status).toBe(200);
    expect((await guest.post(path, label)).status).toBe(403);
    expect((await planner.post(path, label)).status).toBe(201);
    expect((await guest.put(`${path}/a`, { color: 'blue' })).status).toBe(403);
    expect((await guest.delete(`${path}/a`)).status).toBe(403);
    expect((await client.get(`${path}/a`)).body.color).toBe('#ff0000');
    await client.put(`/projects/${project.id}`, {
      issues_access_level: 'disabled',
      merge_requests_access_level: 'disabled',
    });
    expect((await client.get(path)).status).toBe(404);
  });
});

describe('labels over GraphQL', () => {
  it('follows the same rules', async () => {
    const { project, group, client, guest, stranger } = await scene();
    const create = `mutation ($input: LabelCreateInput!) { labelCreate(input: $input) { errors label { id title color textColor } } }`;
    const projectPath = project.path_with_namespace;
    const made = await client.graphql(create, { input: { projectPath, title: 'ui', color: 'gold' } });
    expect(made.data.labelCreate).toMatchObject({ errors: [], label: { title: 'ui', color: '#ffd700' } });
    expect(made.data.labelCreate.label.id).toMatch(/^gid:\/\/gitlab\/ProjectLabel\//);
    const again = await client.graphql(create, { input: { projectPath, title: 'ui', color: 'gold' } });
    expect(again.data.labelCreate).toEqual({ errors: ['Label already exists'], label: null });
    await client.graphql(create, { input: { groupPath: group.full_path, title: 'api' } });
    expect((await guest.graphql(create, { input: { projectPath, title: 'x' } })).errors).toHaveLength(1);

    const { id } = made.data.labelCreate.label;
    const update = `mutation ($input: LabelUpdateInput!) { labelUpdate(input: $input) { errors label { title description } } }`;
    expect((await client.graphql(update, { input: { id, description: 'd' } })).data.labelUpdate.label).toEqual({
      title: 'ui',
      description: 'd',
    });
    expect((await stranger.graphql(update, { input: { id, title: 'y' } })).errors).toHaveLength(1);

    const read = `query ($path: ID!) { project(fullPath: $path) {
      labels(includeAncestorGroups: true) { count nodes { title } } own: labels { nodes { title } } label(title: "ui") { description } }
      group(fullPath: "${group.full_path}") { labels { nodes { title } } } }`;
    const { data, errors } = await guest.graphql(read, { path: projectPath });
    expect(errors).toBeUndefined();
    expect(data.project).toEqual({
      labels: { count: 2, nodes: [{ title: 'api' }, { title: 'ui' }] },
      own: { nodes: [{ title: 'ui' }] },
      label: { description: 'd' },
    });
    const remove = `mutation ($input: LabelDeleteInput!) { labelDelete(input: $input) { errors } }`;
    expect((await guest.graphql(remove, { input: { id } })).errors).toHaveLength(1);
    expect((await client.graphql(remove, { input: { id } })).data.labelDelete.errors).toEqual([]);
    expect((await client.graphql(read, { path: projectPath })).data.project.label).toBeNull();
  });
});
