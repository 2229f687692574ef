import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();
const namesOf = (body: readonly { readonly full_path: string }[]) => body.map((each) => each.full_path);

describe('the list of groups of a project', () => {
  it('has the parent groups and the invited groups that the caller may see', async () => {
    const { make } = app();
    const [owner, member] = [await make.user(), await make.user()];
    const top = await make.group({}, owner);
    const child = await make.group({ parent_id: top.id }, owner);
    const [open, hidden] = [await make.group({ visibility: 'public' }, owner), await make.group({}, owner)];
    const project = await make.project({ namespace_id: child.id }, owner);
    await make.projectMember(project, member, 10);
    for (const [{ id }, group_access] of [
      [open, 20],
      [hidden, 30],
    ] as const) {
      const shared = await app().as(owner).post(`/projects/${project.id}/share`, { group_id: id, group_access });
      expect(shared.status).toBe(201);
    }
    const list = async (user: TestUser, query = '') => {
      const { status, body } = await app().as(user).get(`/projects/${project.id}/groups${query}`);
      expect(status).toBe(200);
      return namesOf(body).toSorted();
    };
    const around = [top.full_path, child.full_path].toSorted();
    expect(await list(owner)).toEqual(around);
    expect(await list(owner, '?with_shared=true')).toEqual([...around, open.full_path, hidden.full_path].toSorted());
    expect(await list(owner, '?with_shared=true&shared_min_access_level=30')).toEqual(
      [...around, hidden.full_path].toSorted(),
    );
    expect(await list(owner, `?skip_groups=${top.id}`)).toEqual([child.full_path]);
    expect(await list(owner, `?search=${child.path}`)).toEqual([child.full_path]);
    expect(await list(member, '?with_shared=true&shared_visible_only=false')).toEqual(
      [...around, open.full_path].toSorted(),
    );
    expect(
      (
        await app()
          .as(await make.user())
          .get(`/projects/${project.id}/groups`)
      ).status,
    ).toBe(404);
    expect((await app().as(owner).get(`/projects/${project.id}/groups?shared_min_access_level=7`)).status).toBe(400);
    const [record] = (await app().as(owner).get(`/projects/${project.id}/groups?search=${child.path}`)).body;
    expect(record).toEqual({
      id: child.id,
      name: child.path,
      full_name: `${top.path} / ${child.path}`,
      full_path: child.full_path,
      avatar_url: null,
      web_url: `${app().url}/groups/${child.full_path}`,
    });
  });

  it('has the groups invited to the project or to a parent group', async () => {
    const { make } = app();
    const [owner, stranger] = [await make.user(), await make.user()];
    const group = await make.group({ visibility: 'public' }, owner);
    const [own, above] = [await make.group({}, owner), await make.group({}, owner)];
    const project = await make.project({ namespace_id: group.id, visibility: 'public' }, owner);
    await app().as(owner).post(`/projects/${project.id}/share`, { group_id: own.id, group_access: 30 });
    await app().as(owner).post(`/groups/${group.id}/share`, { group_id: above.id, group_access: 30 });
    const list = async (user: TestUser, query = '') =>
      namesOf((await app().as(user).get(`/projects/${project.id}/invited_groups${query}`)).body);
    expect(await list(owner)).toEqual([own.full_path, above.full_path].toSorted());
    expect(await list(owner, '?relation=direct')).toEqual([own.full_path]);
    expect(await list(owner, '?relation[]=inherited')).toEqual([above.full_path]);
    expect(await list(owner, `?search=${above.path}&min_access_level=50`)).toEqual([above.full_path]);
    expect(await list(stranger)).toEqual([]);
    expect((await app().as(owner).get(`/projects/${project.id}/invited_groups?relation=other`)).status).toBe(400);
  });

  it('has the groups it can be transferred to', async () => {
    const { make } = app();
    const [owner, other] = [await make.user(), await make.user()];
    const from = await make.group({}, owner);
    const project = await make.project({ namespace_id: from.id, visibility: 'private' }, owner);
    const [into, closed, elsewhere] = [
      await make.group({}, owner),
      await make.group({ project_creation_level: 'owner' }, other),
      await make.group({ project_creation_level: 'developer' }, other),
    ];
    await make.groupMember(closed, owner, 40);
    await make.groupMember(elsewhere, owner, 30);
    const list = async () => app().as(owner).get(`/projects/${project.id}/transfer_locations`);
    expect(namesOf((await list()).body)).toEqual([into.full_path, elsewhere.full_path].toSorted());
    for (const { id } of [into, elsewhere, closed]) {
      const moved = await app().as(owner).put(`/projects/${project.id}/transfer`, { namespace: id });
      expect(moved.status).toBe(id === closed.id ? 403 : 200);
    }
    const maintainer = await make.user();
    await make.projectMember(project, maintainer, 40);
    expect((await app().as(maintainer).get(`/projects/${project.id}/transfer_locations`)).status).toBe(403);
  });
});

describe('the list of users of a project', () => {
  it('includes direct, inherited and invited members', async () => {
    const { make } = app();
    const [owner, direct, shared, stranger] = [
      await make.user(),
      await make.user({ username: 'findable-person' }),
      await make.user(),
      await make.user(),
    ];
    const group = await make.group({}, owner);
    const invited = await make.group({}, owner);
    const project = await make.project({ namespace_id: group.id }, owner);
    await make.projectMember(project, direct, 10);
    await make.groupMember(invited, shared, 30);
    await app().as(owner).post(`/projects/${project.id}/share`, { group_id: invited.id, group_access: 20 });
    const list = async (query = '') => {
      const { body } = await app().as(owner).get(`/projects/${project.id}/users${query}`);
      return body.map((user: { id: number }) => user.id);
    };
    expect(await list()).toEqual([owner.id, direct.id, shared.id].toSorted((a, b) => a - b));
    expect(await list('?search=findable')).toEqual([direct.id]);
    expect(await list(`?skip_users[]=${direct.id}&skip_users[]=${owner.id}`)).toEqual([shared.id]);
    const { body } = await app().as(owner).get(`/projects/${project.id}/users?search=findable`);
    expect(Object.keys(body[0])).toEqual(['id', 'username', 'name', 'state', 'locked', 'avatar_url', 'web_url']);
    expect((await app().as(stranger).get(`/projects/${project.id}/users`)).status).toBe(404);
    expect((await app().anonymous.get(`/projects/${project.id}/users`)).status).toBe(401);
  });

  it('can be imported as members of another project', async () => {
    const { make } = app();
    const [owner, maintainer, guest, known] = [
      await make.user(),
      await make.user(),
      await make.user(),
      await make.user(),
    ];
    const [from, to] = [await make.project({}, owner), await make.project({}, owner)];
    await make.projectMember(from, maintainer, 40);
    await make.projectMember(from, guest, 10, '2999-01-01');
    await make.projectMember(from, known, 50);
    await make.projectMember(to, known, 20);
    await make.projectMember(to, maintainer, 40);
    const copy = (user: TestUser, into = to, source = from) =>
      app().as(user).post(`/projects/${into.id}/import_project_members/${source.id}`);
    expect((await copy(guest)).status).toBe(404);
    expect((await copy(known)).status).toBe(403);
    expect(await copy(owner)).toMatchObject({ status: 200, body: { status: 'success' } });
    const members = async (id: number) =>
      (await app().as(owner).get(`/projects/${id}/members`)).body.map(
        (each: { id: number; access_level: number; expires_at: string | null }) => [
          each.id,
          each.access_level,
          each.expires_at,
        ],
      );
    expect(await members(to.id)).toEqual(
      [
        [owner.id, 50, null],
        [maintainer.id, 40, null],
        [guest.id, 10, '2999-01-01'],
        [known.id, 20, null],
      ].toSorted(([a], [b]) => Number(a) - Number(b)),
    );
    // Nobody can grant a role above their own.
    const third = await make.project({}, owner);
    await make.projectMember(third, maintainer, 40);
    expect((await copy(maintainer, third)).status).toBe(200);
    expect(await members(third.id)).toContainEqual([known.id, 40, null]);
    const fourth = await make.project({}, owner);
    const { data } = await app()
      .as(owner)
      .graphql(
        `mutation { projectMembersImport(input: { projectPath: "${fourth.path_with_namespace}",
          sourceProjectPath: "${from.path_with_namespace}" }) { errors addedCount } }`,
      );
    expect(data.projectMembersImport).toEqual({ errors: [], addedCount: 3 });
    // The caller also has to be a Maintainer of the source project.
    const foreign = await make.project({ visibility: 'internal' }, known);
    expect((await copy(owner, to, foreign)).status).toBe(403);
  });
});
