import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

const app = useApp();

const makeScene = async () => {
  const { make } = app();
  const owner = await make.user();
  const auditor = await make.user({ is_auditor: true, external: true });
  const group = await make.group({ visibility: 'private' }, owner);
  const project = await make.project({ namespace_id: group.id, initialize_with_readme: true }, owner);
  const path = `/projects/${project.id}`;
  const open = await app().as(owner).post(`${path}/issues`, { title: 'Open' });
  const hidden = await app().as(owner).post(`${path}/issues`, { title: 'Hidden', confidential: true });
  return { owner, auditor, group, project, path, open: open.body, hidden: hidden.body };
};

describe('an auditor', () => {
  let scene: Awaited<ReturnType<typeof makeScene>>;
  let client: Client;
  beforeAll(async () => {
    scene = await makeScene();
    client = app().as(scene.auditor);
  });

  const statusOf = async (user: TestUser, path: string) => (await app().as(user).get(path)).status;

  it('reads private groups and projects without being a member', async () => {
    const { group, project, path } = scene;
    for (const each of [
      `/groups/${group.id}`,
      path,
      `${path}/repository/tree`,
      `${path}/repository/files/README.md?ref=main`,
      `${path}/issues`,
      `${path}/issues/${scene.open.iid}`,
      `${path}/merge_requests`,
      `${path}/pipelines`,
      `${path}/members`,
    ]) {
      expect([each, (await client.get(each)).status]).toEqual([each, 200]);
    }
    const ids = async (list: string) => (await client.get(list)).body.map(({ id }: { id: number }) => id);
    expect(await ids('/projects?visibility=private')).toContain(project.id);
    expect(await ids(`/groups?all_available=true&search=${group.path}`)).toEqual([group.id]);
    expect(await ids(`/groups/${group.id}/projects`)).toEqual([project.id]);
    expect(await ids('/issues?scope=all')).toContain(scene.open.id);
    const { data } = await client.graphql(
      `{ project(fullPath: "${project.path_with_namespace}") { userPermissions { readProject createIssue pushCode } } }`,
    );
    expect(data.project.userPermissions).toEqual({ readProject: true, createIssue: false, pushCode: false });
  });

  it('does not read the parts of a public project that only its members read', async () => {
    const { owner, path, hidden } = scene;
    expect((await client.get(`${path}/issues/${hidden.iid}`)).status).toBe(404);
    expect((await client.get(`${path}/variables`)).status).toBe(403);
    await app().as(owner).put(path, { merge_requests_access_level: 'private' });
    expect((await client.get(`${path}/merge_requests`)).status).toBe(404);
    await app().as(owner).put(path, { merge_requests_access_level: 'enabled' });
  });

  it('is assigned and asked for reviews where an auditor can read', async () => {
    const { owner, auditor, path, open, hidden } = scene;
    const assignee_ids = [auditor.id];
    const as = app().as(owner);
    expect((await as.put(`${path}/issues/${open.iid}`, { assignee_ids })).body.assignee?.id).toBe(auditor.id);
    expect((await as.put(`${path}/issues/${hidden.iid}`, { assignee_ids })).status).toBe(200);
    const { body } = await as.post(`${path}/merge_requests`, {
      ...{ source_branch: 'topic', target_branch: 'main', title: 'Reviewed' },
      ...{ assignee_ids, reviewer_ids: assignee_ids },
    });
    expect([body.assignee?.id, body.reviewers[0]?.id]).toEqual([auditor.id, auditor.id]);
    await as.put(path, { merge_requests_access_level: 'private' });
    const closed = await as.put(`${path}/merge_requests/${body.iid}`, { assignee_ids: [], reviewer_ids: [] });
    expect(closed.body.reviewers).toEqual([]);
    const again = await as.put(`${path}/merge_requests/${body.iid}`, { reviewer_ids: assignee_ids });
    expect(again.body.reviewers).toEqual([]);
    await as.put(path, { merge_requests_access_level: 'enabled' });
  });

  it('changes nothing', async () => {
    const { group, path, open } = scene;
    // External users create no groups.
    const other = await app().make.user({ is_auditor: true });
    const own = await app().make.group({}, other);
    const ownProject = await app().make.project({}, other);
    const share = { group_id: group.id, group_access: 10 };
    const results = [
      await app().as(other).post(`/groups/${own.id}/share`, share),
      await app().as(other).post(`/projects/${ownProject.id}/share`, share),
      await client.post(`${path}/fork`),
      await client.post(`${path}/star`),
      await client.post(`${path}/access_requests`),
      await client.post(`/groups/${group.id}/access_requests`),
      await client.post(`${path}/issues`, { title: 'New' }),
      await client.post(`${path}/issues/${open.iid}/notes`, { body: 'Hello' }),
      await client.put(path, { description: 'Changed' }),
      await client.post(`${path}/repository/branches?branch=new&ref=main`),
      await client.delete(path),
    ];
    expect(results.map(({ status }) => status)).toEqual(results.map(() => 403));
    expect((await app().as(scene.owner).get(path)).body).toMatchObject({ forks_count: 0, star_count: 0 });
  });

  it('has the rights of other users in open places', async () => {
    const user = await app().make.user({ is_auditor: true });
    const project = await app().make.project({ visibility: 'internal' });
    const group = await app().make.group({ visibility: 'internal' });
    const path = `/projects/${project.id}`;
    for (const each of [`${path}/fork`, `${path}/star`, `/groups/${group.id}/access_requests`])
      expect([each, (await app().as(user).post(each)).status]).toEqual([each, 201]);
    await app()
      .hub.services.db.updateTable('projects')
      .set({ visibility_level: 0 })
      .where('id', '=', project.id)
      .execute();
    expect((await app().as(user).post(`${path}/star`)).status).toBe(403);
    expect((await app().as(user).post(`${path}/unstar`)).status).toBe(201);
  });

  it('loses the right at once', async () => {
    const { path } = scene;
    const user = await app().make.user({ is_auditor: true });
    expect(await statusOf(user, path)).toBe(200);
    await app().as(app().root).put(`/users/${user.id}`, { auditor: false });
    expect(await statusOf(user, path)).toBe(404);
    await app().as(app().root).put(`/users/${user.id}`, { auditor: true });
    expect(await statusOf(user, path)).toBe(200);
  });
});
