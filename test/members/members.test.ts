import { sql } from 'kysely';
import { beforeEach, describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { findEvents } from '../groups/find-events.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';

const app = useApp();

const TOMORROW = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);

let owner: TestUser;
let group: TestGroup;
let project: TestProject;

beforeEach(async () => {
  owner = await app().make.user();
  group = await app().make.group({ name: 'Team' }, owner);
  project = await app().make.project({ namespace_id: group.id }, owner);
});

const levels = async (path: string, user = owner): Promise<Record<string, number>> => {
  const answer = await app().as(user).get(path);
  expect(answer.status).toBe(200);
  return Object.fromEntries(
    answer.body.map((each: { username: string; access_level: number }) => [each.username, each.access_level]),
  );
};

describe('members of groups', () => {
  it('are added with every field of the record', async () => {
    const user = await app().make.user();
    const input = { user_id: user.id, access_level: 30, expires_at: TOMORROW };
    const answer = await app().as(owner).post(`/groups/${group.id}/members`, input);
    const record = {
      id: user.id,
      username: user.username,
      name: `Name of ${user.username}`,
      state: 'active',
      locked: false,
      avatar_url: null,
      web_url: `${app().url}/${user.username}`,
      access_level: 30,
      created_at: expect.stringMatching(/Z$/),
      created_by: expect.objectContaining({ id: owner.id, username: owner.username }),
      expires_at: TOMORROW,
      membership_state: 'active',
      group_saml_identity: null,
    };
    expect([answer.status, answer.body]).toEqual([201, record]);
    expect((await app().as(user).get(`/groups/${group.id}/members/${user.id}`)).body).toEqual(record);
    expect((await app().as(app().root).get(`/groups/${group.id}/members/${user.id}`)).body.email).toBe(
      `${user.username}@example.com`,
    );
  });

  it('cannot end on the day they begin, nor can shares, because a role ends at the start of its last day', async () => {
    const [user, invited] = [await app().make.user(), await app().make.group({}, owner)];
    const client = app().as(owner);
    const expires_at = new Date(Date.now()).toISOString().slice(0, 10);
    const refused = {
      status: 400,
      body: { message: { expires_at: [expect.stringMatching(/after today|in the past/)] } },
    };
    const path = `/groups/${group.id}/members`;
    expect(await client.post(path, { user_id: user.id, access_level: 30, expires_at })).toMatchObject(refused);
    const share = { group_id: invited.id, group_access: 30, expires_at };
    expect(await client.post(`/groups/${group.id}/share`, share)).toMatchObject(refused);
    await client.post(path, { user_id: user.id, access_level: 30 });
    expect(await client.put(`${path}/${user.id}`, { access_level: 30, expires_at })).toMatchObject(refused);
  });

  it.each([
    [
      'the level is none',
      { access_level: 35 },
      400,
      { error: 'access_level does not have a valid value (allowed: 5, 10, 15, 20, 30, 40, 50)' },
    ],
    ['the level is absent', {}, 400, { error: 'access_level is missing' }],
    [
      'the day is over',
      { access_level: 30, expires_at: '2020-01-01' },
      400,
      { message: { expires_at: ['cannot be a date in the past'] } },
    ],
    ['there is no such user', { access_level: 30, user_id: 999_999 }, 404, { message: '404 User Not Found' }],
    ['the id is none', { access_level: 30, user_id: '1,x' }, 400, { error: 'user_id is invalid' }],
  ])('are not added when %s', async (_why, input, status, body) => {
    const user = await app().make.user();
    const answer = await app()
      .as(owner)
      .post(`/groups/${group.id}/members`, { user_id: user.id, ...input });
    expect([answer.status, answer.body]).toEqual([status, body]);
    expect(Object.keys(await levels(`/groups/${group.id}/members`))).toEqual([owner.username]);
  });

  it('are added by username, or several at once with a report of the failures', async () => {
    const [a, b, c] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const client = app().as(owner);
    const path = `/groups/${group.id}/members`;
    expect((await client.post(path, { access_level: 20 })).body).toEqual({
      error: 'user_id, username are missing, at least one parameter must be provided',
    });
    expect((await client.post(path, { username: a.username.toUpperCase(), access_level: 20 })).body.id).toBe(a.id);
    const again = await client.post(path, { user_id: a.id, access_level: 20 });
    expect([again.status, again.body]).toEqual([409, { message: 'Member already exists' }]);
    const several = await client.post(path, { user_id: `${a.id},${b.id},${c.id}`, access_level: 30 });
    expect([several.status, several.body]).toEqual([
      201,
      { status: 'error', message: { [a.id]: 'Member already exists' } },
    ]);
    expect(await levels(path)).toEqual({ [owner.username]: 50, [a.username]: 20, [b.username]: 30, [c.username]: 30 });
  });

  it('change role and expiry', async () => {
    const user = await app().make.user();
    await app().make.groupMember(group, user, 10);
    const client = app().as(owner);
    const path = `/groups/${group.id}/members/${user.id}`;
    expect((await client.put(path, { access_level: 40, expires_at: TOMORROW })).body).toMatchObject({
      access_level: 40,
      expires_at: TOMORROW,
    });
    // The expiry date stays if it is not given. An empty text removes it.
    expect((await client.put(path, { access_level: 30 })).body.expires_at).toBe(TOMORROW);
    expect((await client.put(path, { access_level: 30, expires_at: '' })).body.expires_at).toBeNull();
    expect((await app().as(user).get(`/projects/${project.id}`)).body.permissions.group_access.access_level).toBe(30);
    expect((await client.put(path, {})).status).toBe(400);
    expect((await client.put(`/groups/${group.id}/members/999999`, { access_level: 30 })).body).toEqual({
      message: '404 Not found',
    });
    expect((await app().as(user).put(path, { access_level: 50 })).status).toBe(403);
  });

  it('leave, and are removed together with their memberships below', async () => {
    const { make, as } = app();
    const [user, leaver] = [await make.user(), await make.user()];
    const below = await make.group({ parent_id: group.id }, owner);
    for (const each of [user, leaver]) {
      await make.groupMember(group, each, 10);
      await make.groupMember(below, each, 40);
      await make.projectMember(project, each, 40);
    }
    expect((await as(user).delete(`/groups/${group.id}/members/${leaver.id}`)).status).toBe(403);
    expect((await as(leaver).delete(`/groups/${group.id}/members/${leaver.id}?skip_subresources=true`)).status).toBe(
      204,
    );
    expect((await as(leaver).get(`/projects/${project.id}`)).body.permissions.project_access.access_level).toBe(40);
    expect((await as(owner).delete(`/groups/${group.id}/members/${user.id}`)).status).toBe(204);
    expect((await as(user).get(`/projects/${project.id}`)).status).toBe(404);
    expect((await as(user).get(`/groups/${below.id}`)).status).toBe(404);
    expect((await as(owner).delete(`/groups/${group.id}/members/${user.id}`)).status).toBe(404);
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select([
        'subject_type',
        'project_id',
        'namespace_ids',
        sql<string>`payload -> 'source' ->> 'full_path'`.as('path'),
      ])
      .where('kind', '=', 'member.removed')
      .where(sql<boolean>`user_ids = array[${user.id}::bigint]`)
      .orderBy('id')
      .execute();
    expect(events).toEqual([
      { subject_type: 'GroupMember', project_id: null, namespace_ids: [group.id], path: group.full_path },
      { subject_type: 'GroupMember', project_id: null, namespace_ids: [group.id, below.id], path: below.full_path },
      {
        subject_type: 'ProjectMember',
        project_id: project.id,
        namespace_ids: [group.id],
        path: project.path_with_namespace,
      },
    ]);
  });

  it('lose their assignments only on request, over REST and GraphQL', async () => {
    const { make, as, root } = app();
    const client = as(owner);
    const elsewhere = await make.project({}, owner);
    const inside = await make.project({ namespace_id: group.id }, owner);
    /** Creates a member who is assigned an issue and a merge request in each project. */
    const assigned = async (): Promise<TestUser> => {
      const user = await make.user();
      await make.projectMember(elsewhere, user, 30);
      await make.groupMember(group, user, 30);
      const { db } = app().hub.services;
      for (const { id } of [elsewhere, inside]) {
        const people = [user.id, owner.id];
        expect((await client.post(`/projects/${id}/issues`, { title: 'Work', assignee_ids: people })).status).toBe(201);
        const branches = { source_branch: `of-${user.username}`, target_branch: 'main' };
        const request = await db
          .insertInto('merge_requests')
          .values({ project_id: id, iid: user.id, title: 'Work', author_id: owner.id, ...branches })
          .returning('id')
          .executeTakeFirstOrThrow();
        const rows = people.map((user_id) => ({ merge_request_id: request.id, user_id }));
        await db.insertInto('merge_request_assignees').values(rows).execute();
      }
      return user;
    };
    const left = async (user: TestUser) => {
      const countOf = async (each: TestProject, kind: string) =>
        (await as(root).get(`/projects/${each.id}/${kind}?assignee_id=${user.id}`)).body.length;
      return {
        inside: [await countOf(inside, 'issues'), await countOf(inside, 'merge_requests')],
        elsewhere: [await countOf(elsewhere, 'issues'), await countOf(elsewhere, 'merge_requests')],
      };
    };

    const overRest = await assigned();
    const membership = `/groups/${group.id}/members/${overRest.id}`;
    expect((await client.delete(`${membership}?unassign_issuables=perhaps`)).status).toBe(400);
    expect(await left(overRest)).toEqual({ inside: [1, 1], elsewhere: [1, 1] });
    expect((await client.delete(`${membership}?unassign_issuables=true`)).status).toBe(204);
    expect(await left(overRest)).toEqual({ inside: [0, 0], elsewhere: [1, 1] });
    const ofProject = `/projects/${elsewhere.id}/members/${overRest.id}`;
    expect((await client.delete(`${ofProject}?unassign_issuables=true`)).status).toBe(204);
    expect(await left(overRest)).toEqual({ inside: [0, 0], elsewhere: [0, 0] });

    const overGraphql = await assigned();
    const remove = async (what: 'group' | 'project', path: string, unassignIssuables?: boolean) => {
      const name = `${what}MemberRemove`;
      const input = { [`${what}Path`]: path, username: overGraphql.username, unassignIssuables };
      const type = `${what === 'group' ? 'Group' : 'Project'}MemberRemoveInput`;
      const answer = await client.graphql(`mutation($i: ${type}!) { ${name}(input: $i) { errors } }`, { i: input });
      expect(answer).toEqual({ data: { [name]: { errors: [] } } });
    };
    await remove('group', group.full_path, true);
    expect(await left(overGraphql)).toEqual({ inside: [0, 0], elsewhere: [1, 1] });
    await remove('project', elsewhere.path_with_namespace);
    expect(await left(overGraphql)).toEqual({ inside: [0, 0], elsewhere: [1, 1] });
    await make.projectMember(elsewhere, overGraphql, 30);
    await remove('project', elsewhere.path_with_namespace, true);
    expect(await left(overGraphql)).toEqual({ inside: [0, 0], elsewhere: [0, 0] });
    // The other assignee stays.
    expect(await left(owner)).toEqual({ inside: [2, 2], elsewhere: [2, 2] });
  });

  it('always include an owner', async () => {
    const { make, as } = app();
    const client = as(owner);
    const path = `/groups/${group.id}/members/${owner.id}`;
    expect((await client.delete(path)).status).toBe(403);
    expect((await client.put(path, { access_level: 40 })).status).toBe(403);
    expect((await as(app().root).delete(path)).status).toBe(403);
    const second = await make.user();
    await make.groupMember(group, second, 50);
    // If both leave at the same time, one stays.
    const both = await Promise.all([
      client.delete(path),
      as(second).delete(`/groups/${group.id}/members/${second.id}`),
    ]);
    expect(both.map((answer) => answer.status).toSorted()).toEqual([204, 403]);
    // An owner of the parent group counts as an owner too.
    const top = await make.user();
    const parent = await make.group({}, top);
    const child = await make.group({ parent_id: parent.id }, top);
    expect((await as(top).delete(`/groups/${child.id}/members/${top.id}`)).status).toBe(204);
    expect((await as(top).put(`/groups/${child.id}`, { description: 'still mine' })).status).toBe(200);
  });

  it('cannot have a lower role than they inherit', async () => {
    const { make, as } = app();
    const user = await make.user();
    const below = await make.group({ parent_id: group.id }, owner);
    await make.groupMember(group, user, 30);
    for (const path of [`/groups/${below.id}/members`, `/projects/${project.id}/members`]) {
      const answer = await as(owner).post(path, { user_id: user.id, access_level: 20 });
      expect([answer.status, answer.body]).toEqual([
        400,
        {
          message: {
            access_level: ['should be greater than or equal to Developer inherited membership from group Team'],
          },
        },
      ]);
      expect((await as(owner).post(path, { user_id: user.id, access_level: 40 })).status).toBe(201);
    }
  });

  it('lose access on their expiry date, and can be added again', async () => {
    const { make, as } = app();
    const user = await make.user();
    await make.groupMember(group, user, 40, new Date().toISOString().slice(0, 10));
    expect((await as(user).get(`/groups/${group.id}`)).status).toBe(404);
    expect(await levels(`/groups/${group.id}/members`)).toEqual({ [owner.username]: 50 });
    expect((await as(owner).get(`/groups/${group.id}/members/${user.id}`)).status).toBe(404);
    const answer = await as(owner).post(`/groups/${group.id}/members`, { user_id: user.id, access_level: 20 });
    expect(answer.status).toBe(201);
    expect((await as(user).get(`/groups/${group.id}`)).status).toBe(200);
  });
});

describe('lists of members', () => {
  it('show direct, inherited and invited members', async () => {
    const { make, as, root } = app();
    const [above, direct, invited, hidden] = [
      await make.user(),
      await make.user(),
      await make.user(),
      await make.user({ name: 'Zoe Someone' }),
    ];
    const below = await make.group({ parent_id: group.id }, owner);
    const inner = await make.project({ namespace_id: below.id }, owner);
    await make.groupMember(group, above, 20);
    await make.groupMember(below, direct, 30);
    await make.groupMember(below, above, 40);
    const open = await make.group({ visibility: 'public' });
    const secret = await make.group();
    await make.groupMember(open, invited, 50);
    await make.groupMember(secret, hidden, 40);
    for (const [id, level] of [
      [open.id, 30],
      [secret.id, 50],
    ] as const) {
      await as(root).post(`/groups/${below.id}/share`, { group_id: id, group_access: level });
    }
    const names = { owner: owner.username, above: above.username, direct: direct.username, invited: invited.username };
    const members = `/groups/${below.id}/members`;
    expect(await levels(members)).toEqual({ [names.owner]: 50, [names.above]: 40, [names.direct]: 30 });
    const all = {
      [names.owner]: 50,
      [names.above]: 40,
      [names.direct]: 30,
      [names.invited]: 30,
      root: 50,
      [hidden.username]: 40,
    };
    expect(await levels(`${members}/all`)).toEqual(all);
    // Callers who do not manage members do not see the members of a group that they must not know about.
    const { [hidden.username]: _hidden, ...known } = all;
    expect(await levels(`${members}/all`, direct)).toEqual({ ...known, root: 30 });
    expect(await levels(`/projects/${inner.id}/members/all`)).toEqual(all);
    expect(await levels(`/projects/${inner.id}/members`)).toEqual({});
    expect(await levels(`${members}/all?query=Someone`)).toEqual({ [hidden.username]: 40 });
    expect(await levels(`${members}?user_ids[]=${above.id}&user_ids[]=${direct.id}&skip_users[]=${direct.id}`)).toEqual(
      {
        [names.above]: 40,
      },
    );
    expect((await as(owner).get(`${members}/all/${invited.id}`)).body.access_level).toBe(30);
    expect((await as(owner).get(`${members}/${invited.id}`)).status).toBe(404);
    const page = await as(owner).get(`${members}/all?per_page=2&page=2`);
    expect([page.body.length, page.headers.get('x-total')]).toEqual([2, '6']);
  });

  it('show the newest of equal memberships of one person, in whichever direction they are read', async () => {
    let inner = group;
    for (let depth = 0; depth < 6; depth++) inner = await app().make.group({ parent_id: inner.id }, owner);
    const place = await app().make.project({ namespace_id: inner.id }, owner);
    const later = await app().make.user();
    await app().make.groupMember(group, later, 30);
    const read = async (page: string) => {
      const { data } = await app()
        .as(owner)
        .graphql(`{ project(fullPath: "${place.path_with_namespace}") {
        projectMembers(${page}) { nodes { group { fullPath } } pageInfo { endCursor } } } }`);
      return data.project.projectMembers;
    };
    const newest = [{ group: { fullPath: inner.full_path } }];
    expect((await read('first: 1')).nodes).toEqual(newest);
    const { endCursor } = (await read('first: 2')).pageInfo;
    expect((await read(`first: 1, before: "${endCursor}"`)).nodes).toEqual(newest);
    expect((await read(`last: 1, before: "${endCursor}"`)).nodes).toEqual(newest);
  });

  it('include the owner of a personal project', async () => {
    const { make } = app();
    const own = await make.project({}, owner);
    expect(await levels(`/projects/${own.id}/members`)).toEqual({ [owner.username]: 50 });
    expect(await levels(`/projects/${own.id}/members/all`)).toEqual({ [owner.username]: 50 });
  });
});

describe('members of projects', () => {
  it('are managed by Maintainers, never above their own role', async () => {
    const { make, as } = app();
    const [maintainer, user] = [await make.user(), await make.user()];
    await make.projectMember(project, maintainer, 40);
    const client = as(maintainer);
    const path = `/projects/${project.id}/members`;
    expect((await client.post(path, { user_id: user.id, access_level: 50 })).status).toBe(403);
    expect((await client.post(path, { user_id: user.id, access_level: 5 })).status).toBe(400);
    expect((await client.post(path, { user_id: user.id, access_level: 40 })).status).toBe(201);
    expect((await client.put(`${path}/${user.id}`, { access_level: 50 })).status).toBe(403);
    expect((await as(owner).put(`${path}/${user.id}`, { access_level: 50 })).status).toBe(200);
    // The member now outranks the Maintainer.
    expect((await client.put(`${path}/${user.id}`, { access_level: 10 })).status).toBe(403);
    expect((await client.delete(`${path}/${user.id}`)).status).toBe(403);
    expect((await client.delete(`${path}/${maintainer.id}`)).status).toBe(204);
    expect((await client.get(`/projects/${project.id}`)).status).toBe(404);
  });

  it('can come from an invited group', async () => {
    const { make, as } = app();
    const [maintainer, member] = [await make.user(), await make.user()];
    await make.projectMember(project, maintainer, 40);
    const invited = await make.group({}, maintainer);
    await make.groupMember(invited, member, 50);
    const client = as(maintainer);
    const path = `/projects/${project.id}/share`;
    expect((await client.post(path, { group_id: invited.id, group_access: 50 })).status).toBe(403);
    const answer = await client.post(path, { group_id: invited.id, group_access: 30, expires_at: TOMORROW });
    expect([answer.status, answer.body]).toEqual([
      201,
      { id: expect.any(Number), project_id: project.id, group_id: invited.id, group_access: 30, expires_at: TOMORROW },
    ]);
    expect((await client.post(path, { group_id: invited.id, group_access: 30 })).status).toBe(409);
    expect((await client.get(`/projects/${project.id}`)).body.shared_with_groups).toMatchObject([
      { group_id: invited.id, group_access_level: 30 },
    ]);
    expect((await as(member).get(`/projects/${project.id}`)).body.permissions.group_access.access_level).toBe(30);
    expect((await as(member).get(`/groups/${invited.id}/projects/shared`)).body).toMatchObject([{ id: project.id }]);
    const secret = await make.group();
    expect((await client.post(path, { group_id: secret.id, group_access: 30 })).status).toBe(404);
    expect((await as(member).delete(`${path}/${invited.id}`)).status).toBe(403);
    expect((await client.delete(`${path}/${invited.id}`)).status).toBe(204);
    expect((await as(member).get(`/projects/${project.id}`)).status).toBe(404);
    await as(owner).put(`/groups/${group.id}`, { share_with_group_lock: true });
    expect((await client.post(path, { group_id: invited.id, group_access: 30 })).status).toBe(403);
  });
});

describe('events of members', () => {
  it('trigger hooks for groups, and only system hooks for projects', async () => {
    const { make, as, hub } = app();
    const user = await make.user({ public_email: 'open@example.com' });
    const client = as(owner);
    await client.post(`/groups/${group.id}/members`, { user_id: user.id, access_level: 30, expires_at: TOMORROW });
    const { id } = await hub.services.db
      .selectFrom('members')
      .select('id')
      .where('user_id', '=', user.id)
      .executeTakeFirstOrThrow();
    await client.put(`/groups/${group.id}/members/${user.id}`, { access_level: 40 });
    await client.put(`/groups/${group.id}/members/${user.id}`, { access_level: 40 });
    await client.delete(`/groups/${group.id}/members/${user.id}`);
    const events = await findEvents(app(), 'GroupMember', id);
    const bodies = await Promise.all(
      events.map(async (event) => {
        const definition = eventDefinitions.find((each) => each.kind === event.kind);
        return [event.kind, definition?.trigger(event.payload), await definition?.body(app().context(), event)];
      }),
    );
    const body = {
      event_name: 'user_add_to_group',
      created_at: expect.stringMatching(/Z$/),
      updated_at: expect.stringMatching(/Z$/),
      group_name: 'Team',
      group_path: group.path,
      group_id: group.id,
      user_username: user.username,
      user_name: `Name of ${user.username}`,
      user_email: 'open@example.com',
      user_id: user.id,
      group_access: 'Developer',
      group_plan: null,
      expires_at: `${TOMORROW}T00:00:00Z`,
    };
    expect(bodies).toEqual([
      ['member.added', 'member_events', body],
      ['member.updated', 'member_events', { ...body, event_name: 'user_update_for_group', group_access: 'Maintainer' }],
      [
        'member.removed',
        'member_events',
        { ...body, event_name: 'user_remove_from_group', group_access: 'Maintainer' },
      ],
    ]);
    expect(events[1]?.payload).toMatchObject({ changes: { access_level: { previous: 30, current: 40 } } });
    expect(events[0]).toMatchObject({ namespace_ids: [group.id], user_ids: [user.id], actor_id: owner.id });

    await client.post(`/projects/${project.id}/members`, { user_id: user.id, access_level: 30 });
    const inProject = await hub.services.db
      .selectFrom('members')
      .select('id')
      .where('user_id', '=', user.id)
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    const [added] = await findEvents(app(), 'ProjectMember', inProject.id);
    expect([added?.kind, added?.project_id]).toEqual(['member.added', project.id]);
    expect(eventDefinitions.find((each) => each.kind === added?.kind)?.trigger(added?.payload)).toBe(
      'project_member_events',
    );
  });
});

describe('members over GraphQL', () => {
  const mutate = (name: string, input: string, payload: string) =>
    `mutation($i: ${input}!) { ${name}(input: $i) { ${payload} errors } }`;

  it('are managed by the same rules', async () => {
    const { make, as } = app();
    const user = await make.user();
    const client = as(owner);
    const fields = 'member { user { username } accessLevel { stringValue } expiresAt createdBy { username } }';
    const who = { username: user.username };
    const added = await client.graphql(mutate('groupMemberAdd', 'GroupMemberAddInput', fields), {
      i: { groupPath: group.path, ...who, accessLevel: 'REPORTER', expiresAt: TOMORROW },
    });
    expect(added.data.groupMemberAdd).toEqual({
      member: {
        user: { username: user.username },
        accessLevel: { stringValue: 'REPORTER' },
        expiresAt: TOMORROW,
        createdBy: { username: owner.username },
      },
      errors: [],
    });
    const again = await client.graphql(mutate('groupMemberAdd', 'GroupMemberAddInput', fields), {
      i: { groupPath: group.path, userId: `gid://gitlab/User/${user.id}`, accessLevel: 'REPORTER' },
    });
    expect(again.data.groupMemberAdd).toEqual({ member: null, errors: ['Member already exists'] });
    const updated = await client.graphql(mutate('groupMemberUpdate', 'GroupMemberUpdateInput', fields), {
      i: { groupPath: group.path, ...who, accessLevel: 'DEVELOPER', expiresAt: null },
    });
    expect(updated.data.groupMemberUpdate.member).toMatchObject({
      accessLevel: { stringValue: 'DEVELOPER' },
      expiresAt: null,
    });
    const path = `${group.path}/${project.path}`;
    const member = await client.graphql(
      mutate('projectMemberAdd', 'ProjectMemberAddInput', 'member { id project { fullPath } }'),
      { i: { projectPath: path, ...who, accessLevel: 'MAINTAINER' } },
    );
    expect(member.data.projectMemberAdd.member).toEqual({
      id: expect.stringMatching(/^gid:\/\/gitlab\/ProjectMember\/\d+$/),
      project: { fullPath: path },
    });
    const list = await client.graphql(
      `{ project(fullPath: "${path}") { projectMembers { count nodes { user { username } accessLevel { integerValue } } } }
         group(fullPath: "${group.path}") { groupMembers(accessLevels: [DEVELOPER]) { nodes { user { username } } } }
         user(username: "${user.username}") { groupMemberships { nodes { group { fullPath } } } projectMemberships { count } } }`,
    );
    expect(list.data).toEqual({
      project: {
        projectMembers: {
          count: 2,
          nodes: [
            { user: { username: owner.username }, accessLevel: { integerValue: 50 } },
            { user: { username: user.username }, accessLevel: { integerValue: 40 } },
          ],
        },
      },
      group: { groupMembers: { nodes: [{ user: { username: user.username } }] } },
      user: { groupMemberships: { nodes: [{ group: { fullPath: group.path } }] }, projectMemberships: { count: 1 } },
    });
    const stranger = await as(await make.user()).graphql(
      `{ user(username: "${user.username}") { groupMemberships { count } } }`,
    );
    expect(stranger.data.user.groupMemberships.count).toBe(0);
    const denied = await as(user).graphql(mutate('groupMemberRemove', 'GroupMemberRemoveInput', 'group { id }'), {
      i: { groupPath: group.path, username: owner.username },
    });
    expect(denied.errors).toHaveLength(1);
    const left = await as(user).graphql(mutate('groupMemberRemove', 'GroupMemberRemoveInput', 'group { id }'), {
      i: { groupPath: group.path, ...who },
    });
    expect(left.data.groupMemberRemove).toEqual({ group: null, errors: [] });
    expect(await levels(`/groups/${group.id}/members`)).toEqual({ [owner.username]: 50 });
  });
});
