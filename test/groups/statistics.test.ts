import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { foldSizes } from '#domains/groups/summaries.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

/** Returns the total in the group's record. */
const sizeOf = async (id: number): Promise<number> =>
  (await app().as(app().root).get(`/groups/${id}?statistics=true&with_projects=false`)).body.statistics.storage_size;

const setSize = (projectId: number, size: number) =>
  sql`update project_statistics set repository_size = ${size}, uploads_size = 1 where project_id = ${projectId}`.execute(
    app().hub.services.db,
  );

describe('the statistics of groups', () => {
  it('follow every change to the projects in them and below', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const [top, other] = [await app().make.group({}, owner), await app().make.group({}, owner)];
    const child = await app().make.group({ parent_id: top.id }, owner);
    const [first, second] = [
      await app().make.project({ namespace_id: top.id }, owner),
      await app().make.project({ namespace_id: child.id }, owner),
    ];
    const sizes = async () => [await sizeOf(top.id), await sizeOf(child.id), await sizeOf(other.id)];
    expect(await sizes()).toEqual([0, 0, 0]);
    await setSize(first.id, 100);
    await setSize(second.id, 1_000);
    expect(await sizes()).toEqual([1_102, 1_001, 0]);
    await setSize(second.id, 500);
    expect(await sizes()).toEqual([602, 501, 0]);
    await foldSizes(app().context());
    expect(await sizes()).toEqual([602, 501, 0]);
    await client.post(`/groups/${other.id}/projects/${first.id}`);
    expect(await sizes()).toEqual([501, 501, 101]);
    await client.post(`/groups/${child.id}/transfer`, { group_id: other.id });
    expect(await sizes()).toEqual([0, 501, 602]);
    await client.delete(`/projects/${first.id}`);
    expect(await sizes()).toEqual([0, 501, 501]);
    await client.delete(`/groups/${child.id}`);
    expect(await sizeOf(other.id)).toBe(0);
  });

  it('are in lists too, for administrators who request them', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const child = await app().make.group({ parent_id: group.id }, owner);
    const project = await app().make.project({ namespace_id: child.id }, owner);
    await setSize(project.id, 41);
    for (const path of [`/groups?search=${child.path}`, `/groups/${group.id}/subgroups?x=1`]) {
      const asRoot = await app().as(app().root).get(`${path}&statistics=true`);
      expect(asRoot.body).toMatchObject([{ id: child.id, statistics: { storage_size: 42, uploads_size: 1 } }]);
      const asOwner = await app().as(owner).get(`${path}&statistics=true`);
      expect(asOwner.body).toHaveLength(1);
      expect(asOwner.body[0]).not.toHaveProperty('statistics');
    }
  });
});

describe('moving a project into a group', () => {
  it('requires an Owner who may create projects there, and redirects the old path', async () => {
    const [owner, maintainer, stranger] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const [from, to] = [await app().make.group({}, owner), await app().make.group({}, owner)];
    const project = await app().make.project({ namespace_id: from.id }, owner);
    await app().make.projectMember(project, maintainer, 40);
    const path = `/groups/${to.id}/projects/${project.id}`;
    expect((await app().as(maintainer).post(path)).status).toBe(404);
    await app().make.groupMember(to, maintainer, 40);
    expect((await app().as(maintainer).post(path)).status).toBe(403);
    expect((await app().as(stranger).post(path)).status).toBe(404);
    expect((await app().anonymous.post(path)).status).toBe(401);
    const locked = await app().make.group({ project_creation_level: 'noone' }, owner);
    expect((await app().as(owner).post(`/groups/${locked.id}/projects/${project.id}`)).status).toBe(403);
    expect((await app().as(owner).post(path)).status).toBe(201);
    const moved = await app().as(owner).get(`/projects/${project.id}`);
    expect(moved.body.path_with_namespace).toBe(`${to.full_path}/${project.path}`);
    const old = await app()
      .as(owner)
      .get(`/projects/${encodeURIComponent(project.path_with_namespace)}`);
    expect(old.status).toBe(301);
    expect((await app().as(owner).post(path)).status).toBe(400);
  });

  it('is refused if the group is less visible or has a project of the same name', async () => {
    const owner = await app().make.user();
    const [open, closed] = [await app().make.group({ visibility: 'public' }, owner), await app().make.group({}, owner)];
    const project = await app().make.project({ namespace_id: open.id, visibility: 'public' }, owner);
    expect((await app().as(owner).post(`/groups/${closed.id}/projects/${project.id}`)).status).toBe(400);
    const twin = await app().make.group({ visibility: 'public' }, owner);
    await app().make.project({ namespace_id: twin.id, path: project.path, name: project.path }, owner);
    expect((await app().as(owner).put(`/projects/${project.id}/transfer`, { namespace: twin.id })).status).toBe(400);
    expect((await app().as(owner).get(`/projects/${project.id}`)).body.namespace.id).toBe(open.id);
  });
});
