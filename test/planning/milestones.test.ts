import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

const scene = async () => {
  const { make, as } = app();
  const owner = await make.user();
  const group = await make.group({}, owner);
  const project = await make.project({ namespace_id: group.id }, owner);
  const [guest, stranger] = [await make.user(), await make.user()];
  await make.projectMember(project, guest, 10);
  return { owner, group, project, guest: as(guest), stranger: as(stranger), client: as(owner) };
};

describe('milestones', () => {
  it('creates, reads, changes, closes, lists and deletes milestones', async () => {
    const { project, client } = await scene();
    const path = `/projects/${project.id}/milestones`;
    const made = await client.post(path, { title: '1.0', due_date: '2020-01-31', start_date: '2020-01-01' });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({
      iid: 1,
      project_id: project.id,
      title: '1.0',
      description: null,
      state: 'active',
      due_date: '2020-01-31',
      start_date: '2020-01-01',
      expired: true,
      web_url: `${app().url}/${project.path_with_namespace}/-/milestones/1`,
    });
    expect(made.body).not.toHaveProperty('group_id');
    const one = `${path}/${made.body.id}`;
    expect((await client.get(one)).body).toEqual(made.body);
    expect(await client.post(path, { title: '1.0' })).toMatchObject({ status: 400 });
    expect(await client.put(one, { start_date: '2020-02-01' })).toMatchObject({
      status: 400,
      body: { message: { due_date: ['must be greater than start date'] } },
    });
    expect((await client.put(one, {})).status).toBe(400);
    expect((await client.put(one, { state_event: 'close', due_date: null })).body).toMatchObject({
      state: 'closed',
      due_date: null,
      expired: false,
    });
    await client.post(path, { title: '2.0', due_date: '2030-01-01' });
    const titles = async (query: string) =>
      (await client.get(`${path}${query}`)).body.map((each: { title: string }) => each.title);
    expect(await titles('')).toEqual(['2.0', '1.0']);
    expect(await titles('?state=closed')).toEqual(['1.0']);
    expect(await titles('?iids[]=2')).toEqual(['2.0']);
    expect(await titles('?search=2')).toEqual(['2.0']);
    expect(await titles('?title=nothing')).toEqual([]);
    expect((await client.put(one, { state_event: 'activate' })).body.state).toBe('active');
    expect((await client.delete(one)).status).toBe(204);
    expect(await client.get(one)).toMatchObject({ status: 404, body: { message: '404 Milestone Not Found' } });
  });

  it('inherits group milestones, which are addressed only in their group', async () => {
    const { project, group, client } = await scene();
    const made = await client.post(`/groups/${group.id}/milestones`, { title: 'all' });
    expect(made.body).toMatchObject({
      iid: 1,
      group_id: group.id,
      web_url: `${app().url}/groups/${group.full_path}/-/milestones/1`,
    });
    expect((await client.get(`/projects/${project.id}/milestones`)).body).toEqual([]);
    expect((await client.get(`/projects/${project.id}/milestones?include_ancestors=true`)).body).toHaveLength(1);
    expect((await client.get(`/projects/${project.id}/milestones/${made.body.id}`)).status).toBe(404);
    expect((await client.delete(`/projects/${project.id}/milestones/${made.body.id}`)).status).toBe(404);
    expect((await client.get(`/groups/${group.id}/milestones/${made.body.id}`)).status).toBe(200);
  });

  it('lets members read milestones and Planners change them', async () => {
    const { project, client, guest, stranger } = await scene();
    const path = `/projects/${project.id}/milestones`;
    const { body } = await client.post(path, { title: 'm' });
    for (const [who, read, write] of [
      [app().anonymous, 404, 401],
      [stranger, 404, 404],
      [guest, 200, 403],
    ] as const) {
      expect((await who.get(path)).status).toBe(read);
      expect((await who.get(`${path}/${body.id}`)).status).toBe(read);
      expect((await who.post(path, { title: 'n' })).status).toBe(write);
      expect((await who.put(`${path}/${body.id}`, { title: 'n' })).status).toBe(write);
      expect((await who.delete(`${path}/${body.id}`)).status).toBe(write);
    }
    expect((await client.get(path)).body).toEqual([body]);
  });

  it('follows the same rules over GraphQL', async () => {
    const { project, group, client, guest, stranger } = await scene();
    const create = `mutation ($input: MilestoneCreateInput!) { milestoneCreate(input: $input) { errors milestone { id iid title state dueDate } } }`;
    const projectPath = project.path_with_namespace;
    const made = await client.graphql(create, { input: { projectPath, title: 'one', dueDate: '2030-05-06' } });
    expect(made.data.milestoneCreate).toMatchObject({
      errors: [],
      milestone: { iid: '1', state: 'active', dueDate: '2030-05-06T00:00:00.000Z' },
    });
    await client.graphql(create, { input: { groupPath: group.full_path, title: 'two' } });
    const { id } = made.data.milestoneCreate.milestone;
    const update = `mutation ($input: MilestoneUpdateInput!) { milestoneUpdate(input: $input) { errors milestone { state title } } }`;
    expect(
      (await client.graphql(update, { input: { id, stateEvent: 'CLOSE' } })).data.milestoneUpdate.milestone,
    ).toEqual({
      state: 'closed',
      title: 'one',
    });
    expect((await guest.graphql(update, { input: { id, title: 'x' } })).errors).toHaveLength(1);
    const read = `query ($path: ID!, $id: MilestoneID!) { milestone(id: $id) { title project { fullPath } stats { totalIssuesCount } }
      project(fullPath: $path) { milestones(includeAncestors: true) { count nodes { title groupMilestone group { fullPath } } } } }`;
    const { data, errors } = await guest.graphql(read, { path: projectPath, id });
    expect(errors).toBeUndefined();
    expect(data.milestone).toEqual({
      title: 'one',
      project: { fullPath: projectPath },
      stats: { totalIssuesCount: 0 },
    });
    expect(data.project.milestones.nodes).toContainEqual({
      title: 'two',
      groupMilestone: true,
      group: { fullPath: group.full_path },
    });
    expect((await stranger.graphql(read, { path: projectPath, id })).data).toEqual({ milestone: null, project: null });
    const remove = `mutation ($input: MilestoneDeleteInput!) { milestoneDelete(input: $input) { errors } }`;
    expect((await client.graphql(remove, { input: { id } })).data.milestoneDelete.errors).toEqual([]);
    expect((await client.graphql(read, { path: projectPath, id })).data.milestone).toBeNull();
  });
});
