import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { removeExpiredMembers } from '#domains/members/expiry.ts';
import { findEvents } from '../groups/find-events.ts';
import { signedIn } from '../pages/visitor.ts';
import { useApp } from '../support/app.ts';
import { linkTo, mailsTo } from '../support/mails.ts';

const app = useApp();
const db = () => app().hub.services.db;

const kindsOf = async (type: string, id: number) => (await findEvents(app(), type, id)).map(({ kind }) => kind);

describe('access requests', () => {
  it.each(['groups', 'projects'] as const)('to %s are approved or denied by those who manage members', async (kind) => {
    const [owner, asking, other] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const place =
      kind === 'groups'
        ? await app().make.group({ visibility: 'public' }, owner)
        : await app().make.project({ visibility: 'public' }, owner);
    const path = `/${kind}/${place.id}/access_requests`;
    const asked = await app().as(asking).post(path);
    expect(asked.status).toBe(201);
    expect(asked.body).toMatchObject({ id: asking.id, username: asking.username, requested_at: expect.any(String) });
    expect((await app().as(asking).post(path)).status).toBe(400);
    expect((await app().as(owner).post(path)).status).toBe(400);
    expect((await app().anonymous.post(path)).status).toBe(401);
    expect((await app().as(asking).get(path)).status).toBe(403);
    expect((await app().as(other).put(`${path}/${asking.id}/approve`)).status).toBe(403);
    expect((await app().as(other).delete(`${path}/${asking.id}`)).status).toBe(403);
    const listed = await app().as(owner).get(path);
    expect(listed.body.map(({ id }: { id: number }) => id)).toEqual([asking.id]);
    expect((await app().as(owner).put(`${path}/${asking.id}/approve`, { access_level: 60 })).status).toBe(400);
    const granted = await app().as(owner).put(`${path}/${asking.id}/approve`);
    expect(granted.status).toBe(201);
    expect(granted.body).toMatchObject({ id: asking.id, access_level: 30 });
    expect((await app().as(owner).put(`${path}/${asking.id}/approve`)).status).toBe(404);
    expect((await app().as(owner).get(path)).body).toEqual([]);
    await app().as(other).post(path);
    expect((await app().as(owner).delete(`${path}/${other.id}`)).status).toBe(204);
    expect((await app().as(owner).get(`/${kind}/${place.id}/members/${other.id}`)).status).toBe(404);
  });

  it('are accepted only if they are enabled and the caller can see the group', async () => {
    const [owner, asking] = [await app().make.user(), await app().make.user()];
    const closed = await app().make.group({ visibility: 'public', request_access_enabled: false }, owner);
    const hidden = await app().make.group({}, owner);
    expect((await app().as(asking).post(`/groups/${closed.id}/access_requests`)).status).toBe(403);
    expect((await app().as(asking).post(`/groups/${hidden.id}/access_requests`)).status).toBe(404);
  });

  it('can be withdrawn, and are visible only to those who decide on them', async () => {
    const [owner, asking] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({ visibility: 'public' }, owner);
    await app().as(asking).post(`/groups/${group.id}/access_requests`);
    const row = await db()
      .selectFrom('access_requests')
      .select('id')
      .where('user_id', '=', asking.id)
      .executeTakeFirstOrThrow();
    expect((await app().as(asking).delete(`/groups/${group.id}/access_requests/${asking.id}`)).status).toBe(204);
    const events = await findEvents(app(), 'AccessRequest', row.id);
    expect(events.map(({ kind }) => kind)).toEqual(['access_request.created', 'access_request.withdrawn']);
    expect(events.map((event) => event.min_access_level)).toEqual([50, 50]);
    expect(await mailsTo(app(), `${owner.username}@example.com`)).toHaveLength(1);
  });

  it('are mailed to those with the role, the owner of a personal namespace included, but not through shares', async () => {
    const [owner, asking, guest, invited] = await Promise.all([1, 2, 3, 4].map(() => app().make.user()));
    if (!owner || !asking || !guest || !invited) throw new Error('users are missing');
    const project = await app().make.project({ visibility: 'public' }, owner);
    await app().make.projectMember(project, guest, 10);
    const other = await app().make.group({ visibility: 'public' }, invited);
    const shared = await app()
      .as(owner)
      .post(`/projects/${project.id}/share`, { group_id: other.id, group_access: 50 });
    expect(shared.status).toBe(201);
    expect((await app().as(asking).post(`/projects/${project.id}/access_requests`)).status).toBe(201);
    const count = async ({ username }: { username: string }) =>
      (await mailsTo(app(), `${username}@example.com`)).filter(({ subject }) => subject.startsWith('Request')).length;
    expect([await count(owner), await count(guest), await count(invited)]).toEqual([1, 0, 0]);
  });

  it('send no mail for a group with emails disabled', async () => {
    const [owner, asking] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({ visibility: 'public', emails_enabled: false }, owner);
    const child = await app().make.group({ parent_id: group.id, visibility: 'public' }, owner);
    await app().as(asking).post(`/groups/${child.id}/access_requests`);
    expect(await mailsTo(app(), `${owner.username}@example.com`)).toEqual([]);
  });

  it('are created, listed and approved over GraphQL', async () => {
    const [owner, asking] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({ visibility: 'public' }, owner);
    const place = `groupPath: "${group.full_path}"`;
    const asked = await app()
      .as(asking)
      .graphql(`mutation { accessRequestCreate(input: { ${place} }) { errors accessRequest { user { username } } } }`);
    expect(asked.data.accessRequestCreate).toEqual({
      errors: [],
      accessRequest: { user: { username: asking.username } },
    });
    const query = `{ group(fullPath: "${group.full_path}") { accessRequests { nodes { user { username } } } } }`;
    expect((await app().as(owner).graphql(query)).data.group.accessRequests.nodes).toHaveLength(1);
    expect(await app().as(asking).graphql(query)).toEqual({ data: { group: { accessRequests: null } } });
    const granted = await app()
      .as(owner)
      .graphql(
        `mutation { accessRequestApprove(input: { ${place}, userId: "gid://gitlab/User/${asking.id}", accessLevel: GUEST }) { errors user { username } } }`,
      );
    expect(granted.data.accessRequestApprove.errors).toEqual([]);
    expect((await app().as(owner).get(`/groups/${group.id}/members/${asking.id}`)).body.access_level).toBe(10);
  });
});

describe('requests and invitations over GraphQL', () => {
  it('are null, without an error, for everyone who does not manage members', async () => {
    const [owner, reporter] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({ visibility: 'public' }, owner);
    await app().make.groupMember(group, reporter, 20);
    const project = await app().make.project({ namespace_id: group.id, visibility: 'public' }, owner);
    const lists = '{ accessRequests { nodes { id } } invitations { nodes { email } } }';
    const query = `{ group(fullPath: "${group.full_path}") ${lists}
      project(fullPath: "${project.path_with_namespace}") ${lists} }`;
    const [none, empty] = [null, { nodes: [] }].map((list) => ({ accessRequests: list, invitations: list }));
    for (const client of [app().as(reporter), app().as(await app().make.user()), app().anonymous])
      expect(await client.graphql(query)).toEqual({ data: { group: none, project: none } });
    expect(await app().as(owner).graphql(query)).toEqual({ data: { group: empty, project: empty } });
  });
});

describe('invitations', () => {
  it('are listed, changed and revoked by those who manage members', async () => {
    const [owner, maintainer, stranger] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const group = await app().make.group({}, owner);
    await app().make.groupMember(group, maintainer, 40);
    const path = `/groups/${group.id}/invitations`;
    const body = { email: 'one@example.net, TWO@example.net', access_level: 30, expires_at: '2099-01-01' };
    expect((await app().as(maintainer).post(path, body)).status).toBe(403);
    expect((await app().as(stranger).post(path, body)).status).toBe(404);
    expect((await app().anonymous.post(path, body)).status).toBe(401);
    expect((await app().as(owner).post(path, body)).body).toEqual({ status: 'success' });
    const again = await app()
      .as(owner)
      .post(path, { ...body, email: 'One@example.net,not an address' });
    expect(again.body.status).toBe('error');
    expect(Object.keys(again.body.message)).toEqual(['One@example.net', 'not an address']);
    expect(
      (
        await app()
          .as(owner)
          .post(path, { ...body, access_level: 60 })
      ).status,
    ).toBe(400);
    expect((await app().as(maintainer).get(path)).status).toBe(403);
    const listed = await app().as(owner).get(path);
    expect(listed.body).toMatchObject([
      { invite_email: 'one@example.net', access_level: 30, expires_at: '2099-01-01', user_name: '' },
      { invite_email: 'TWO@example.net' },
    ]);
    expect(JSON.stringify(listed.body)).not.toContain('token');
    const one = `${path}/${encodeURIComponent('one@example.net')}`;
    expect((await app().as(maintainer).put(one, { access_level: 10 })).status).toBe(403);
    expect((await app().as(owner).put(one, { access_level: 10 })).body.access_level).toBe(10);
    expect((await app().as(owner).delete(one)).status).toBe(204);
    expect((await app().as(owner).delete(one)).status).toBe(404);
  });

  it('grant no higher role than the inviting user has', async () => {
    const [owner, maintainer] = [await app().make.user(), await app().make.user()];
    const project = await app().make.project({}, owner);
    await app().make.projectMember(project, maintainer, 40);
    const invite = (access_level: number) =>
      app()
        .as(maintainer)
        .post(`/projects/${project.id}/invitations`, { email: `level${access_level}@example.net`, access_level });
    expect((await invite(50)).status).toBe(403);
    expect((await invite(40)).body).toEqual({ status: 'success' });
  });

  it('are accepted through the link in the mail, and only once', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    await app().as(owner).post(`/groups/${group.id}/invitations`, { email: 'linked@example.net', access_level: 20 });
    const link = await linkTo(app(), 'linked@example.net', '/-/invites/');
    const { visitor, user } = await signedIn(app());
    await visitor.get(link);
    expect(visitor.page.html).toContain(group.full_path);
    expect((await app().as(user).get(`/groups/${group.id}`)).status).toBe(404);
    await visitor.submit(link, {});
    expect((await app().as(owner).get(`/groups/${group.id}/members/${user.id}`)).body.access_level).toBe(20);
    const late = await signedIn(app());
    await late.visitor.get(link);
    expect(late.visitor.page.status).toBe(404);
    await app().as(owner).delete(`/groups/${group.id}/members/${user.id}`);
    expect((await app().as(owner).get(`/groups/${group.id}/invitations`)).body).toEqual([]);
  });

  it('do not reveal the owner of a hidden email address over REST, GraphQL and events', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const addresses = ['Shown@example.net', 'private@example.net', 'second@example.net', 'never-confirmed@example.net'];
    for (const email of addresses) {
      await app().as(owner).post(`/groups/${group.id}/invitations`, { email, access_level: 20 });
    }
    const create = async (email: string, attributes: Record<string, unknown> = {}) => {
      const username = email.replace(/@.*/, '');
      const user = { email, username, name: username, force_random_password: true, skip_confirmation: true };
      const made = await app()
        .as(app().root)
        .post('/users', { ...user, ...attributes });
      expect([username, made.status]).toEqual([username, 201]);
      return made.body;
    };
    const shown = await create('shown@example.net', { public_email: 'shown@example.net' });
    await create('private@example.net');
    await create('never-confirmed@example.net', { skip_confirmation: false });
    const more = await create('first@example.net');
    await app()
      .as(app().root)
      .post(`/users/${more.id}/emails`, { email: 'second@example.net', skip_confirmation: true });
    await app().settle();
    const members = (await app().as(owner).get(`/groups/${group.id}/members`)).body;
    expect(members.map(({ id }: { id: number }) => id).toSorted()).toEqual([owner.id, shown.id].toSorted());
    const { data } = await app()
      .as(owner)
      .graphql(`{ group(fullPath: "${group.full_path}") { groupMembers { nodes { user { username } } } } }`);
    expect(data.group.groupMembers.nodes).toHaveLength(2);
    const left = (await app().as(owner).get(`/groups/${group.id}/invitations`)).body;
    expect(left.map((each: { invite_email: string }) => each.invite_email)).toEqual(addresses.slice(1));
    expect(left.map((each: { user_name: string }) => each.user_name)).toEqual(['', '', '']);
    const { rows } = await sql<{ kind: string; actor_id: number; payload: unknown }>`
      select kind, actor_id, payload from events
      where namespace_ids @> array[${group.id}::bigint]`.execute(app().hub.services.db);
    const accepted = rows.filter(({ kind }) => kind === 'invitation.accepted');
    expect(accepted.map(({ actor_id }) => actor_id)).toEqual([shown.id]);
    for (const secret of ['private@', 'first', 'second@']) expect(JSON.stringify(rows)).not.toContain(secret);
  });

  it('are created and deleted over GraphQL', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const place = `groupPath: "${group.full_path}", email: "graph@example.net"`;
    const made = await app()
      .as(owner)
      .graphql(
        `mutation { invitationCreate(input: { ${place}, accessLevel: DEVELOPER }) { errors invitation { email } } }`,
      );
    expect(made.data.invitationCreate).toEqual({ errors: [], invitation: { email: 'graph@example.net' } });
    const gone = await app().as(owner).graphql(`mutation { invitationDelete(input: { ${place} }) { errors } }`);
    expect(gone.data.invitationDelete.errors).toEqual([]);
  });
});

describe('expired members and shares', () => {
  it('are removed with an event for each, and nothing else is removed', async () => {
    const [owner, past, future] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const [group, invited] = [await app().make.group({}, owner), await app().make.group({}, owner)];
    await app().make.groupMember(group, past, 30);
    await app().make.groupMember(group, future, 30, '2099-01-01');
    await app().as(owner).post(`/groups/${group.id}/share`, { group_id: invited.id, group_access: 20 });
    const yesterday = sql<string>`current_date - 1`;
    const row = await db()
      .updateTable('members')
      .set({ expires_at: yesterday })
      .where('user_id', '=', past.id)
      .returning('id')
      .executeTakeFirstOrThrow();
    await db()
      .updateTable('namespace_shares')
      .set({ expires_at: yesterday })
      .where('namespace_id', '=', group.id)
      .execute();
    await removeExpiredMembers.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    expect(await kindsOf('GroupMember', row.id)).toEqual(['member.removed']);
    expect(await kindsOf('Group', group.id)).toContain('group.unshared');
    const members = await db().selectFrom('members').select('user_id').where('namespace_id', '=', group.id).execute();
    expect(members.map(({ user_id }) => user_id).sort()).toEqual([owner.id, future.id].sort());
  });
});
