import { describe, expect, it } from 'vitest';
import { deleteUser } from '#domains/users/commands.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root);

const BASIC = ['avatar_url', 'id', 'locked', 'name', 'state', 'username', 'web_url'];

let made = 0;
const fresh = () => {
  made += 1;
  return {
    email: `new${made}@example.com`,
    name: `New ${made}`,
    username: `new-user-${made}`,
    password: 'a-good-password',
  };
};

describe('creating a user', () => {
  it('creates one with a personal namespace that they own', async () => {
    const input = {
      ...fresh(),
      bio: 'Writes.',
      admin: 'false',
      projects_limit: '7',
      website_url: 'https://example.com',
    };
    const { status, body } = await admin().post('/users', input);
    expect(status).toBe(201);
    expect(body).toMatchObject({
      username: input.username,
      name: input.name,
      email: input.email,
      state: 'active',
      locked: false,
      bio: 'Writes.',
      is_admin: false,
      projects_limit: 7,
      can_create_group: true,
      can_create_project: true,
      bot: false,
      created_by: { id: app().root.id, username: 'root' },
      web_url: `${app().url}/${input.username}`,
      identities: [],
    });
    expect(body.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const { db } = app().hub.services;
    const namespace = await db
      .selectFrom('namespaces')
      .selectAll()
      .where('owner_id', '=', body.id)
      .executeTakeFirstOrThrow();
    expect(namespace).toMatchObject({
      id: body.namespace_id,
      kind: 'user',
      path: input.username,
      full_path: input.username,
      full_name: input.name,
      traversal_ids: [body.namespace_id],
      visibility_level: 20,
    });
    const access = await db.selectFrom('namespace_access').selectAll().where('user_id', '=', body.id).execute();
    expect(access).toMatchObject([{ namespace_id: body.namespace_id, access_level: 50, via_share: false }]);
    const event = await db.selectFrom('events').selectAll().where('kind', '=', 'user.created').execute();
    expect(event.at(-1)).toMatchObject({ actor_id: app().root.id, subject_id: body.id });
    expect(JSON.stringify(event)).not.toContain('a-good-password');
  });

  it('stores the password only as an Argon2id digest', async () => {
    const { body } = await admin().post('/users', fresh());
    const { password_hash } = await app()
      .hub.services.db.selectFrom('users')
      .select('password_hash')
      .where('id', '=', body.id)
      .executeTakeFirstOrThrow();
    expect(password_hash).toMatch(/^\$argon2id\$/);
    expect(JSON.stringify(body)).not.toContain('argon2');
  });

  it.each([
    [{ email: undefined }, { error: 'email is missing' }],
    [{ email: ['a@example.com', 'b@example.com'] }, { error: 'email is invalid (allowed: a string)' }],
    [{ email: { a: 'a@example.com' } }, { error: 'email is invalid (allowed: a string)' }],
    [{ admin: 'maybe' }, { error: 'admin is invalid (allowed: true, false)' }],
    [{ email: 'nobody' }, { message: { email: ['is invalid'] } }],
    [{ username: 'a b' }, { message: { username: [expect.stringContaining('can contain only letters')] } }],
    [{ username: '-x' }, { message: { username: [expect.stringContaining("Cannot start with '-'")] } }],
    [{ username: 'x.git' }, { message: { username: [expect.stringContaining('.git')] } }],
    [{ username: '..' }, { message: { username: [expect.stringContaining('can contain only')] } }],
    [{ username: 'API' }, { message: { username: ['is a reserved name'] } }],
    [{ name: ' ' }, { message: { name: ["can't be blank"] } }],
    [{ password: 'short' }, { message: { password: ['is too short (minimum is 8 characters)'] } }],
    [{ password: undefined }, { message: { password: [expect.stringContaining("can't be blank")] } }],
    [{ website_url: 'javascript:alert(1)' }, { message: { website_url: ['is not a valid URL'] } }],
    [{ public_email: 'else@example.com' }, { message: { public_email: [expect.stringContaining('confirmed')] } }],
    [{ bio: 'x'.repeat(256) }, { message: { bio: ['is too long (maximum is 255 characters)'] } }],
    [{ projects_limit: -1 }, { message: { projects_limit: ['must be greater than or equal to 0'] } }],
    [{ provider: 'ldapmain' }, { message: { extern_uid: [expect.stringContaining('provider')] } }],
  ])('refuses %j', async (wrong, expected) => {
    const before = await countUsers();
    const { status, body } = await admin().post('/users', { ...fresh(), ...wrong });
    expect(status).toBe(400);
    expect(body).toEqual(expected);
    expect(await countUsers()).toBe(before);
  });

  it('refuses a user name or address that is taken, in any case', async () => {
    const first = fresh();
    await admin().post('/users', first);
    const before = await countUsers();
    const sameName = await admin().post('/users', { ...fresh(), username: first.username.toUpperCase() });
    expect([sameName.status, sameName.body]).toEqual([409, { message: 'Username has already been taken' }]);
    const sameEmail = await admin().post('/users', { ...fresh(), email: first.email.toUpperCase() });
    expect([sameEmail.status, sameEmail.body]).toEqual([409, { message: 'Email has already been taken' }]);
    expect(await countUsers()).toBe(before);
  });

  it('accepts a name for only one of twenty concurrent requests', async () => {
    const { username } = fresh();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () =>
        admin().post('/users', { ...fresh(), username, password: undefined, force_random_password: true }),
      ),
    );
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1);
    expect(answers.filter((answer) => answer.status === 409)).toHaveLength(19);
  });

  it('generates an unknown password on request', async () => {
    const input = { ...fresh(), password: undefined, force_random_password: true };
    const { status, body } = await admin().post('/users', input);
    expect(status).toBe(201);
    expect(body.username).toBe(input.username);
  });

  it('uses the settings for missing values', async () => {
    await admin().put('/application/settings', { user_default_external: true, default_projects_limit: 3 });
    const { body } = await admin().post('/users', fresh());
    expect(body).toMatchObject({ external: true, projects_limit: 3 });
    await admin().put('/application/settings', { user_default_external: false, default_projects_limit: 100_000 });
  });

  it('requires an administrator', async () => {
    const user = await app().make.user();
    const before = await countUsers();
    expect((await app().anonymous.post('/users', fresh())).status).toBe(401);
    expect((await app().as(user).post('/users', fresh())).status).toBe(403);
    expect((await app().as(app().root, ['read_api']).post('/users', fresh())).status).toBe(403);
    expect(await countUsers()).toBe(before);
  });
});

describe('reading users', () => {
  it('shows each caller only the fields they may see', async () => {
    const one = await app().make.user({ bio: 'About me', note: 'a note' });
    const other = await app().make.user();
    const path = `/users/${one.id}`;
    expect((await app().anonymous.get(path)).status).toBe(401);
    const byOther = (await app().as(other).get(path)).body;
    expect(byOther).toMatchObject({ bio: 'About me', followers: 0, is_followed: false });
    expect(byOther).not.toHaveProperty('email');
    expect(byOther).not.toHaveProperty('is_admin');
    const byAdmin = (await admin().get(path)).body;
    expect(byAdmin).toMatchObject({ email: `${one.username}@example.com`, note: 'a note', is_admin: false });
    const own = (await app().as(one).get('/user')).body;
    expect(own).toMatchObject({ email: `${one.username}@example.com`, external: false, two_factor_enabled: false });
    expect(own).not.toHaveProperty('note');
    expect(own).not.toHaveProperty('is_admin');
    expect((await admin().get('/user')).body).toMatchObject({ username: 'root', is_admin: true });
  });

  it('shows others only the basic fields of a private profile', async () => {
    const hidden = await app().make.user({ private_profile: true, bio: 'secret' });
    const other = await app().make.user();
    expect(Object.keys((await app().as(other).get(`/users/${hidden.id}`)).body).sort()).toEqual(BASIC);
    expect((await app().as(hidden).get(`/users/${hidden.id}`)).body.bio).toBe('secret');
    expect((await admin().get(`/users/${hidden.id}`)).body.bio).toBe('secret');
    const { data } = await app().as(other).graphql(`{ user(username: "${hidden.username}") { name bio createdAt } }`);
    expect(data.user).toMatchObject({ bio: null, createdAt: null });
  });

  it('answers 404 for an unknown user, and 400 for an invalid id', async () => {
    const user = await app().make.user();
    const { status, body } = await app().as(user).get('/users/999999');
    expect([status, body]).toEqual([404, { message: '404 User Not Found' }]);
    expect((await app().as(user).get('/users/abc')).status).toBe(400);
    expect((await app().as(user).get('/users/18446744073709551616')).status).toBe(400);
  });

  it('allows the scope read_user to read users, and nothing else', async () => {
    const user = await app().make.user();
    const reader = app().as(user, ['read_user']);
    expect((await reader.get('/user')).status).toBe(200);
    expect((await reader.get('/users')).status).toBe(200);
    expect((await reader.get('/personal_access_tokens')).status).toBe(403);
    expect((await reader.get('/application/settings')).status).toBe(403);
  });
});

describe('listing users', () => {
  it('shows public fields to users, and all fields to administrators', async () => {
    const user = await app().make.user();
    const seen = (await app().as(user).get(`/users?username=${user.username.toUpperCase()}`)).body;
    expect(seen).toHaveLength(1);
    expect(Object.keys(seen[0]).sort()).toEqual(BASIC);
    const byAdmin = (await admin().get(`/users?username=${user.username}`)).body;
    expect(byAdmin[0]).toMatchObject({ email: `${user.username}@example.com`, namespace_id: expect.any(Number) });
  });

  it('requires an exact user name from anonymous callers', async () => {
    const user = await app().make.user();
    expect((await app().anonymous.get('/users')).status).toBe(403);
    expect((await app().anonymous.get('/users?search=a')).status).toBe(403);
    const { status, body } = await app().anonymous.get(`/users?username=${user.username}`);
    expect([status, body.length]).toEqual([200, 1]);
  });

  it('searches parts of names and user names, but only whole public addresses', async () => {
    const one = await app().make.user({
      username: 'searchable-zebra',
      name: 'Percent 100% Zoe',
      email: 'zoe@zoo.test',
    });
    const other = await app().make.user({ email: 'open@zoo.test', public_email: 'Open@zoo.test' });
    const ids = async (query: string, client = app().as(other)) =>
      (await client.get(`/users?search=${encodeURIComponent(query)}`)).body.map((user: { id: number }) => user.id);
    expect(await ids('able-zeb')).toEqual([one.id]);
    expect(await ids('100% zo')).toEqual([one.id]);
    expect(await ids('10_% zo')).toEqual([]);
    expect(await ids('zoe@zoo.test')).toEqual([]);
    expect(await ids('zoe@zoo.test', admin())).toEqual([one.id]);
    expect(await ids('open@zoo.test')).toEqual([other.id]);
    expect(await ids('open@zoo')).toEqual([]);
  });

  it('filters by state and type', async () => {
    const blocked = await app().make.user({ state: 'blocked' });
    const external = await app().make.user({ external: true });
    const bot = await app().make.user({ user_type: 'project_bot' });
    const ids = async (query: string) =>
      (await admin().get(`/users?per_page=100&${query}`)).body.map((user: { id: number }) => user.id);
    expect(await ids('blocked=true')).toEqual([blocked.id]);
    expect(await ids('active=true')).not.toContain(blocked.id);
    expect(await ids('external=true')).toContain(external.id);
    expect(await ids('external=true')).not.toContain(bot.id);
    expect(await ids('exclude_external=true')).not.toContain(external.id);
    expect(await ids('without_project_bots=true')).not.toContain(bot.id);
    expect(await ids('humans=true')).not.toContain(bot.id);
    expect(await ids('admins=true')).toEqual([app().root.id]);
    expect(await ids('two_factor=enabled')).toEqual([]);
    expect(await ids('created_after=2999-01-01')).toEqual([]);
    expect((await admin().get('/users?two_factor=maybe')).status).toBe(400);
  });

  it('paginates by keyset in every order without gaps', async () => {
    const all = (await admin().get('/users?per_page=100&order_by=id&sort=asc')).body.length;
    for (const order of ['id', 'name', 'username', 'created_at', 'updated_at']) {
      const seen: number[] = [];
      let path: string | null = `/users?pagination=keyset&per_page=3&order_by=${order}&sort=asc`;
      while (path) {
        const { body, headers } = await admin().get(path);
        seen.push(...body.map((user: { id: number }) => user.id));
        path = /<[^>]*\/api\/v4([^>]*)>; rel="next"/.exec(headers.get('link') ?? '')?.[1] ?? null;
      }
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen.length).toBe(all);
    }
  });
});

describe('updating a user', () => {
  it('changes only the given values', async () => {
    const user = await app().make.user({ bio: 'before', location: 'here' });
    const { status, body } = await admin().put(`/users/${user.id}`, { bio: null, name: 'After', note: 'n' });
    expect(status).toBe(200);
    expect(body).toMatchObject({ bio: '', location: 'here', name: 'After', note: 'n', username: user.username });
    const event = await app()
      .hub.services.db.selectFrom('events')
      .selectAll()
      .where('kind', '=', 'user.updated')
      .where('subject_id', '=', user.id)
      .executeTakeFirstOrThrow();
    expect(event.payload).toMatchObject({
      changes: { bio: { previous: 'before', current: '' }, name: { current: 'After' } },
    });
  });

  it('moves the personal namespace and its projects with the user name', async () => {
    const user = await app().make.user();
    const { db } = app().hub.services;
    const namespace = await db
      .selectFrom('namespaces')
      .select('id')
      .where('owner_id', '=', user.id)
      .executeTakeFirstOrThrow();
    await db
      .insertInto('projects')
      .values({
        namespace_id: namespace.id,
        name: 'p',
        path: 'P1',
        full_path: `${user.username}/P1`,
        visibility_level: 0,
        disk_path: `@hashed/aa/bb/${user.username}.git`,
      })
      .execute();
    const { status } = await admin().put(`/users/${user.id}`, { username: `${user.username}-Renamed` });
    expect(status).toBe(200);
    const project = await db
      .selectFrom('projects')
      .select(['id', 'full_path'])
      .where('namespace_id', '=', namespace.id)
      .executeTakeFirstOrThrow();
    expect(project.full_path).toBe(`${user.username}-Renamed/P1`);
    const redirects = await db
      .selectFrom('redirects')
      .select(['path', 'namespace_id', 'project_id'])
      .where('path', 'like', `${user.username}%`)
      .orderBy('path')
      .execute();
    expect(redirects).toEqual([
      { path: user.username, namespace_id: namespace.id, project_id: null },
      { path: `${user.username}/p1`, namespace_id: null, project_id: project.id },
    ]);
    await admin().put(`/users/${user.id}`, { username: user.username });
    const left = await db.selectFrom('redirects').select('path').where('path', '=', user.username).execute();
    expect(left).toEqual([]);
  });

  it('answers 404 with the reason for invalid values', async () => {
    const user = await app().make.user();
    const taken = await admin().put(`/users/${user.id}`, { username: 'ROOT' });
    expect([taken.status, taken.body]).toEqual([404, { message: 'Username has already been taken' }]);
    const email = await admin().put(`/users/${user.id}`, { email: 'unknown@example.com' });
    expect([email.status, email.body]).toEqual([
      404,
      { message: 'Email is not an address that was added to the account' },
    ]);
    expect((await admin().put('/users/999999', { name: 'x' })).status).toBe(404);
    expect((await admin().get(`/users/${user.id}`)).body.username).toBe(user.username);
  });

  it('keeps the last administrator', async () => {
    const { status } = await admin().put(`/users/${app().root.id}`, { admin: false });
    expect(status).toBe(404);
    expect((await admin().get('/user')).body.is_admin).toBe(true);
  });

  it('requires an administrator, even for the own account', async () => {
    const user = await app().make.user();
    expect((await app().as(user).put(`/users/${user.id}`, { admin: true })).status).toBe(403);
    expect((await app().anonymous.put(`/users/${user.id}`, { admin: true })).status).toBe(401);
    expect((await admin().get(`/users/${user.id}`)).body.is_admin).toBe(false);
  });
});

describe('deleting a user', () => {
  it('deletes them with their tokens, namespace and projects', async () => {
    const user = await app().make.user();
    const token = await app().tokenOf(user);
    const { db, git } = app().hub.services;
    const namespace = await db
      .selectFrom('namespaces')
      .select('id')
      .where('owner_id', '=', user.id)
      .executeTakeFirstOrThrow();
    const disk_path = '@hashed/cc/dd/doomed.git';
    await git.init(disk_path, 'main');
    await db
      .insertInto('projects')
      .values({
        namespace_id: namespace.id,
        name: 'p',
        path: 'p',
        full_path: `${user.username}/p`,
        visibility_level: 0,
        disk_path,
      })
      .execute();
    const { status, body } = await admin().delete(`/users/${user.id}`);
    expect([status, body]).toEqual([204, '']);
    expect((await admin().get(`/users/${user.id}`)).status).toBe(404);
    expect((await app().anonymous.get('/user', { 'private-token': token })).status).toBe(401);
    expect(await db.selectFrom('projects').select('id').where('disk_path', '=', disk_path).execute()).toEqual([]);
    await app().settle();
    expect(await git.exists(disk_path)).toBe(false);
  });

  it('is refused while a group has no other owner', async () => {
    const user = await app().make.user();
    const { db } = app().hub.services;
    const group = await db
      .insertInto('namespaces')
      .values({ kind: 'group', name: 'g', path: 'g-own', full_path: 'g-own', full_name: 'g', visibility_level: 0 })
      .returning('id')
      .executeTakeFirstOrThrow();
    await db
      .updateTable('namespaces')
      .set({ traversal_ids: [group.id] })
      .where('id', '=', group.id)
      .execute();
    await app().make.groupMember(group, user, 50);
    const refused = await admin().delete(`/users/${user.id}`);
    expect(refused.status).toBe(409);
    expect((await admin().get(`/users/${user.id}`)).status).toBe(200);
    await app().make.groupMember(group, await app().make.user(), 50);
    expect((await admin().delete(`/users/${user.id}`)).status).toBe(204);
  });

  it('keeps one of two administrators who delete each other concurrently', async () => {
    const second = await app().make.user({ is_admin: true });
    const third = await app().make.user({ is_admin: true });
    const { db } = app().hub.services;
    await db.updateTable('users').set({ is_admin: false }).where('id', '=', app().root.id).execute();
    const contexts = [second, third].map((user) => {
      const ctx = app().context(user);
      return { ...ctx, actor: { ...ctx.actor, isAdmin: true } };
    });
    const [bySecond, byThird] = contexts;
    if (!bySecond || !byThird) throw new Error('two were made');
    const outcomes = await Promise.allSettled([deleteUser(bySecond, third.id), deleteUser(byThird, second.id)]);
    expect(outcomes.map((outcome) => outcome.status).sort()).toEqual(['fulfilled', 'rejected']);
    await db.updateTable('users').set({ is_admin: true }).where('id', '=', app().root.id).execute();
  });

  it("refuses the caller's own account, and requires an administrator", async () => {
    const user = await app().make.user();
    expect((await admin().delete(`/users/${app().root.id}`)).status).toBe(403);
    expect((await app().as(user).delete(`/users/${user.id}`)).status).toBe(403);
    expect((await app().anonymous.delete(`/users/${user.id}`)).status).toBe(401);
    expect((await admin().delete('/users/999999')).status).toBe(404);
  });
});

describe('GraphQL', () => {
  it('shows the caller', async () => {
    const user = await app().make.user({ bio: 'hello' });
    const query =
      '{ currentUser { __typename id username name state bio email admin userPermissions { createSnippet } } }';
    expect((await app().as(user).graphql(query)).data.currentUser).toEqual({
      __typename: 'CurrentUser',
      id: `gid://gitlab/User/${user.id}`,
      username: user.username,
      name: `Name of ${user.username}`,
      state: 'active',
      bio: 'hello',
      email: `${user.username}@example.com`,
      admin: null,
      userPermissions: { createSnippet: false },
    });
    expect((await app().anonymous.graphql(query)).data.currentUser).toBeNull();
  });

  it('finds users by name or id, and lists them', async () => {
    const user = await app().make.user();
    const client = app().as(user);
    const query =
      'query ($id: UserID, $username: String) { user(id: $id, username: $username) { __typename username email } }';
    const byName = await client.graphql(query, { username: 'root' });
    expect(byName.data.user).toEqual({ __typename: 'UserCore', username: 'root', email: null });
    const byId = await client.graphql(query, { id: `gid://gitlab/User/${user.id}` });
    expect(byId.data.user).toMatchObject({ username: user.username, email: `${user.username}@example.com` });
    expect((await app().anonymous.graphql(query, { id: `gid://gitlab/User/${user.id}` })).data.user).toBeNull();
    const list = await client.graphql(
      '{ users(first: 2, sort: ID_ASC) { count nodes { username } pageInfo { hasNextPage } } }',
    );
    expect(list.data.users).toMatchObject({ nodes: [{ username: 'root' }, {}], pageInfo: { hasNextPage: true } });
    expect(list.data.users.count).toBe(Number((await client.get('/users')).headers.get('x-total')));
    const anonymous = await app().anonymous.graphql('{ users { nodes { username } } }');
    expect(anonymous.data.users).toBeNull();
    expect(anonymous.errors).toHaveLength(1);
  });

  it('creates, changes and deletes under the same rules as REST', async () => {
    const input = fresh();
    const create = `mutation ($input: UserCreateInput!) { userCreate(input: $input) { user { id username admin bio } errors } }`;
    const { data } = await admin().graphql(create, { input: { ...input, bio: 'b' } });
    expect(data.userCreate).toEqual({
      user: { id: expect.any(String), username: input.username, admin: false, bio: 'b' },
      errors: [],
    });
    const again = await admin().graphql(create, { input });
    expect(again.data.userCreate).toMatchObject({
      user: null,
      errors: [expect.stringContaining('already been taken')],
    });
    const invalid = await admin().graphql(create, { input: { ...fresh(), username: 'a b', name: ' ' } });
    expect(invalid.data.userCreate.errors).toHaveLength(2);

    const id = data.userCreate.user.id;
    const update = `mutation ($input: UserUpdateInput!) { userUpdate(input: $input) { user { name bio } errors } }`;
    const updated = await admin().graphql(update, { input: { id, name: 'Other' } });
    expect(updated.data.userUpdate).toEqual({ user: { name: 'Other', bio: 'b' }, errors: [] });

    const remove = 'mutation ($id: UserID!) { userDelete(input: { id: $id }) { errors } }';
    const outsider = await app()
      .as(await app().make.user())
      .graphql(remove, { id });
    expect(outsider.errors?.[0]?.message).toMatch(/you don't have permission/);
    expect((await admin().graphql(remove, { id })).data.userDelete).toEqual({ errors: [] });
    expect((await admin().graphql(remove, { id })).errors).toHaveLength(1);
  });
});

const countUsers = async (): Promise<number> => Number((await admin().get('/users')).headers.get('x-total'));
