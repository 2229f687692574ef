import { describe, expect, it } from 'vitest';
import { insertMergeRequest } from '../merge-requests/support.ts';
import { useApp } from '../support/app.ts';
import { makeScene } from './scene.ts';

const app = useApp();

describe('labels', () => {
  it.each(['groups', 'projects'] as const)('of %s can be subscribed to', async (owners) => {
    const { owner, reporter, stranger, group, path } = await makeScene(app());
    const container = owners === 'groups' ? `/groups/${group.id}` : path;
    const client = owners === 'groups' ? owner : reporter;
    const label = (await owner.post(`${container}/labels`, { name: 'bug', color: '#ff0000' })).body;
    expect(label.subscribed).toBe(false);
    const at = `${container}/labels/${label.id}`;
    expect(await client.post(`${at}/subscribe`)).toMatchObject({ status: 201, body: { subscribed: true } });
    expect((await client.post(`${at}/subscribe`)).status).toBe(304);
    expect((await client.get(at)).body.subscribed).toBe(true);
    expect((await client.get(`${container}/labels`)).body).toMatchObject([{ subscribed: true }]);
    expect(await client.post(`${container}/labels/bug/unsubscribe`)).toMatchObject({ body: { subscribed: false } });
    expect((await client.post(`${at}/unsubscribe`)).status).toBe(304);
    expect((await app().anonymous.post(`${at}/subscribe`)).status).toBe(401);
    if (owners === 'projects') expect((await stranger.post(`${at}/subscribe`)).status).toBe(404);
  });

  it('of a project become labels of its group, with those of its other projects', async () => {
    const { owner, reporter, maintainer, people, group, path } = await makeScene(app());
    const other = await app().make.project({ namespace_id: group.id }, people.owner);
    for (const at of [path, `/projects/${other.id}`]) {
      await owner.post(`${at}/labels`, { name: 'bug', color: '#ff0000' });
      await owner.post(`${at}/issues`, { title: 'x', labels: 'bug' });
    }
    expect((await reporter.put(`${path}/labels/bug/promote`)).status).toBe(403);
    expect((await maintainer.put(`${path}/labels/bug/promote`)).status).toBe(403);
    const promoted = await owner.put(`${path}/labels/bug/promote`);
    expect(promoted).toMatchObject({ status: 200, body: { name: 'bug', is_project_label: false } });
    expect((await owner.get(`/groups/${group.id}/labels`)).body).toMatchObject([{ id: promoted.body.id }]);
    for (const at of [path, `/projects/${other.id}`]) {
      expect((await owner.get(`${at}/labels`)).body.map(({ id }: { id: number }) => id)).toEqual([promoted.body.id]);
      expect((await owner.get(`${at}/issues?labels=bug`)).body).toHaveLength(1);
    }
    await owner.post(`${path}/labels`, { name: 'ui', color: '#00ff00' });
    expect(await owner.put(`${path}/labels/promote`, { name: 'ui' })).toMatchObject({
      status: 200,
      body: { name: 'ui', is_project_label: false },
    });
    expect((await owner.put(`${path}/labels/promote`, { name: 'bug' })).status).toBe(404);
    expect((await owner.put(`${path}/labels/promote`, { name: 'none such' })).status).toBe(404);
  });

  it('of a project of a user cannot be promoted', async () => {
    const user = await app().make.user();
    const project = await app().make.project({}, user);
    const client = app().as(user);
    await client.post(`/projects/${project.id}/labels`, { name: 'bug', color: '#ff0000' });
    expect((await client.put(`/projects/${project.id}/labels/bug/promote`)).status).toBe(400);
  });
});

describe('milestones', () => {
  it('of a project become milestones of its group', async () => {
    const { owner, reporter, planner, group, path } = await makeScene(app());
    await owner.post(`/groups/${group.id}/milestones`, { title: 'Taken' });
    const milestone = (await owner.post(`${path}/milestones`, { title: 'One' })).body;
    await owner.post(`${path}/issues`, { title: 'x', milestone_id: milestone.id });
    for (const client of [reporter, planner]) {
      expect((await client.post(`${path}/milestones/${milestone.id}/promote`)).status).toBe(403);
    }
    const promoted = await owner.post(`${path}/milestones/${milestone.id}/promote`);
    expect(promoted).toMatchObject({
      status: 200,
      body: { id: milestone.id, group_id: group.id, iid: 2, title: 'One' },
    });
    expect((await owner.get(`${path}/issues/1`)).body.milestone).toMatchObject({
      id: milestone.id,
      group_id: group.id,
    });
    expect((await owner.post(`${path}/milestones/${milestone.id}/promote`)).status).toBe(404);
  });

  it('take in those of the same title in other projects of the group', async () => {
    const { owner, people, group, path } = await makeScene(app());
    const other = await app().make.project({ namespace_id: group.id, visibility: 'private' }, people.owner);
    const elsewhere = await app().make.project({}, people.owner);
    const [first, second, third] = await Promise.all(
      [path, `/projects/${other.id}`, `/projects/${elsewhere.id}`].map(async (place) => {
        const { id } = (await owner.post(`${place}/milestones`, { title: 'One' })).body;
        await owner.post(`${place}/issues`, { title: 'x', milestone_id: id });
        return id as number;
      }),
    );
    const { db } = app().hub.services;
    const { iid } = await insertMergeRequest(db, { project_id: other.id, milestone_id: second ?? null });
    expect((await owner.post(`${path}/milestones/${first}/promote`)).status).toBe(200);
    const shown = { milestone: { id: first, group_id: group.id } };
    for (const one of [
      `${path}/issues/1`,
      `/projects/${other.id}/issues/1`,
      `/projects/${other.id}/merge_requests/${iid}`,
    ])
      expect((await owner.get(one)).body).toMatchObject(shown);
    expect((await owner.get(`/projects/${other.id}/milestones/${second}`)).status).toBe(404);
    expect((await owner.get(`/projects/${elsewhere.id}/issues/1`)).body.milestone.id).toBe(third);
    const deleted = await db
      .selectFrom('events')
      .select(['subject_id', 'project_id'])
      .where('kind', '=', 'milestone.deleted')
      .where('subject_id', '=', second ?? 0)
      .execute();
    expect(deleted).toEqual([{ subject_id: second, project_id: other.id }]);
  });

  it('list their merge requests', async () => {
    const { owner, guest, stranger, group, project, path } = await makeScene(app());
    const own = (await owner.post(`${path}/milestones`, { title: 'One' })).body;
    const shared = (await owner.post(`/groups/${group.id}/milestones`, { title: 'Two' })).body;
    const { db } = app().hub.services;
    const [first, second] = [
      await insertMergeRequest(db, { project_id: project.id, milestone_id: own.id }),
      await insertMergeRequest(db, { project_id: project.id, milestone_id: shared.id, state: 'closed' }),
    ];
    const ids = async (path: string, client = owner) =>
      (await client.get(path)).body.map(({ id }: { id: number }) => id);
    expect(await ids(`${path}/milestones/${own.id}/merge_requests?state=opened`)).toEqual([first.id]);
    expect(await ids(`/groups/${group.id}/milestones/${shared.id}/merge_requests`)).toEqual([second.id]);
    expect(await ids(`/groups/${group.id}/milestones/${shared.id}/merge_requests?state=opened`)).toEqual([]);
    expect(await ids(`/groups/${group.id}/milestones/${shared.id}/merge_requests`, guest)).toEqual([]);
    expect((await stranger.get(`${path}/milestones/${own.id}/merge_requests`)).status).toBe(404);
  });
});
