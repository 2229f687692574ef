import { beforeAll, describe, expect, it } from 'vitest';
import { type TestApp, type TestUser, useApp } from '../support/app.ts';
import type { Answer, Client, GraphqlAnswer } from '../support/client.ts';

// REST and GraphQL share their functions: both show and do the same, for every caller.

const app = useApp();

const ROLES = ['anonymous', 'stranger', 'reader', 'user', 'administrator'] as const;
type Role = (typeof ROLES)[number];

let stranger: TestUser;

beforeAll(async () => {
  stranger = await app().make.user();
});

const clientOf = (role: Role, user: TestUser): Client => {
  if (role === 'anonymous') return app().anonymous;
  if (role === 'stranger') return app().as(stranger);
  // An administrator with a read-only token.
  if (role === 'reader') return app().as(app().root, ['read_api']);
  return app().as(role === 'user' ? user : app().root);
};

const gid = (user: TestUser) => `gid://gitlab/User/${user.id}`;

describe('a user record', () => {
  /** Fields that have another name in GraphQL. */
  const RENAMED: Readonly<Record<string, string>> = {
    is_admin: 'admin',
    is_auditor: 'auditor',
    followers: 'followersCount',
    following: 'followingCount',
    current_sign_in_ip: 'currentSignInIp',
    last_sign_in_ip: 'lastSignInIp',
  };
  /** Fields that GraphQL has as ids or objects. `REST_ALONE` has those about plans, which GraphQL lacks. */
  const ELSEWHERE = new Set(['id', 'namespace_id', 'created_by', 'identities', 'scim_identities']);
  const REST_ALONE = new Set(['plan', 'trial', 'using_license_seat']);
  const fieldOf = (name: string) =>
    RENAMED[name] ?? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

  let names: readonly string[];
  const subjects: Record<'open' | 'closed', TestUser | undefined> = { open: undefined, closed: undefined };

  beforeAll(async () => {
    const attributes = {
      bio: 'Writes.',
      location: 'Here',
      organization: 'Acme',
      job_title: 'Engineer',
      pronouns: 'they/them',
      website_url: 'https://example.com',
      timezone: 'Asia/Tokyo',
      note: 'a secret note',
      commit_email: '_private',
      current_sign_in_ip: '192.0.2.1',
      current_sign_in_at: '2024-01-02T03:04:05Z',
      sign_in_count: 3,
      last_activity_on: '2024-01-02',
    };
    subjects.open = await app().make.user(attributes);
    subjects.closed = await app().make.user({ ...attributes, private_profile: true });
    const { body } = await app().as(app().root).get(`/users/${subjects.open.id}`);
    names = Object.keys(body).filter((name) => !ELSEWHERE.has(name) && !REST_ALONE.has(name));
  });

  const shownBy = async (client: Client, user: TestUser) => {
    const fields = names.map(fieldOf).join(' ');
    const query = `query($id: UserID) { user(id: $id) {
      id ${fields} namespace { id } createdBy { username } identities { provider } scimIdentities { externUid } } }`;
    return (await client.graphql(query, { id: gid(user) })).data.user;
  };

  it.each(ROLES.flatMap((role) => [[role, 'open'] as const, [role, 'closed'] as const]))(
    'is the same for the %s if the profile is %s',
    async (role, profile) => {
      const user = subjects[profile];
      if (!user) throw new Error('made before');
      const client = clientOf(role, user);
      const { status, body } = await client.get(`/users/${user.id}`);
      const shown = await shownBy(client, user);
      if (status !== 200) {
        expect(shown).toBeNull();
        return;
      }
      const expected = Object.fromEntries(names.map((name) => [fieldOf(name), body[name] ?? null]));
      // The request itself is activity, which changes these dates.
      const changing = (value: unknown) => (value === undefined || value === null ? null : expect.any(String));
      expect(Object.fromEntries(names.map((name) => [fieldOf(name), shown[fieldOf(name)]]))).toEqual({
        ...expected,
        lastActivityOn: changing(body.last_activity_on),
        currentSignInAt: changing(body.current_sign_in_at),
        lastSignInAt: changing(body.last_sign_in_at),
        // GraphQL shows this field to everyone (reference: graphql §7).
        bot: false,
        localTime: body.local_time === undefined ? null : expect.stringMatching(/^\d{1,2}:\d\d [AP]M$/u),
      });
      expect(shown.id).toBe(gid(user));
      for (const [name, field] of [
        ['identities', 'identities'],
        ['scim_identities', 'scimIdentities'],
      ] as const) {
        expect([name, shown[field] === null]).toEqual([name, body[name] === undefined]);
      }
      if (role !== 'administrator' && role !== 'reader') {
        expect(JSON.stringify([body, shown])).not.toContain('a secret note');
        expect(JSON.stringify([body, shown])).not.toContain('192.0.2.1');
      }
    },
  );

  it('is the same in lists: the same users in the same order', async () => {
    const prefix = `listed${app().root.id}x`;
    const made = [
      await app().make.user({ username: `${prefix}a`, external: true }),
      await app().make.user({ username: `${prefix}b`, state: 'blocked' }),
      await app().make.user({ username: `${prefix}c`, is_admin: true }),
      await app().make.user({ username: `${prefix}d`, two_factor_enabled: true, is_auditor: true }),
      await app().make.user({ username: `${prefix}e`, user_type: 'project_bot' }),
    ];
    const root = app().as(app().root);
    await root.put(`/users/${made[0]?.id}/custom_attributes/team`, { value: 'blue' });
    const filters: readonly (readonly [string, string])[] = [
      ['', ''],
      ['active=true', 'active: true'],
      ['blocked=true', 'blocked: true'],
      ['external=true', 'external: true'],
      ['exclude_external=true', 'excludeExternal: true'],
      ['humans=true', 'humans: true'],
      ['without_project_bots=true', 'withoutProjectBots: true'],
      ['admins=true', 'admins: true'],
      ['auditors=true', 'auditors: true'],
      ['two_factor=enabled', 'twoFactor: true'],
      ['without_projects=true', 'withoutProjects: true'],
      ['custom_attributes[team]=blue', 'customAttributes: [{ key: "team", value: "blue" }]'],
      ['order_by=username&sort=asc', 'sort: USERNAME_ASC'],
    ];
    for (const client of [app().as(stranger), root]) {
      for (const [query, args] of filters) {
        const { body } = await client.get(`/users?search=${prefix}&${query}`);
        const { data } = await client.graphql(`{ users(search: "${prefix}", ${args}) { nodes { username } } }`);
        const found = body.map(({ username }: TestUser) => username);
        expect([query, data.users.nodes.map(({ username }: TestUser) => username)]).toEqual([query, found]);
      }
    }
    // Anonymous callers have to give an exact name.
    expect((await app().anonymous.get(`/users?search=${prefix}`)).status).toBe(403);
    expect(
      (await app().anonymous.graphql(`{ users(search: "${prefix}") { nodes { username } } }`)).data.users,
    ).toBeNull();
    await app()
      .hub.services.db.updateTable('users')
      .set({ is_admin: false })
      .where('username', '=', `${prefix}c`)
      .execute();
  });
});

describe('an operation on a user', () => {
  type Outcome = 'done' | 'refused' | 'wrong';

  const ofRest = ({ status }: Answer, operation: Operation): Outcome => {
    if (status < 400) return 'done';
    // An update answers 404 to invalid values.
    if (status === 400 || status === 409 || (status === 404 && operation.wrongIs404)) return 'wrong';
    expect([401, 403, 404]).toContain(status);
    return 'refused';
  };

  const ofGraphql = ({ data, errors }: GraphqlAnswer): Outcome => {
    if (errors) {
      expect(data === undefined || data === null || Object.values(data).every((each) => each === null)).toBe(true);
      return 'refused';
    }
    const [payload] = Object.values<{ errors: string[] }>(data);
    return payload?.errors.length === 0 ? 'done' : 'wrong';
  };

  interface Operation {
    readonly name: string;
    readonly state?: Readonly<Record<string, unknown>>;
    readonly rest: (client: Client, user: TestUser) => Promise<Answer>;
    readonly mutation: string;
    readonly input?: Readonly<Record<string, unknown>>;
    /** The name of the input field with the user's id. Null if there is none. */
    readonly idField?: string | null;
    readonly wrongIs404?: true;
    /** Returns the state after the operation. */
    readonly result: (app: TestApp, user: TestUser) => Promise<unknown>;
    readonly expected: Readonly<Partial<Record<Role, Outcome>>>;
  }

  const row = async ({ hub }: TestApp, user: TestUser) => {
    const found = await hub.services.db
      .selectFrom('users')
      .select(['state', 'bio', 'name', 'is_admin', 'failed_attempts', 'projects_limit'])
      .where('id', '=', user.id)
      .executeTakeFirst();
    return found ?? null;
  };
  const followers = async ({ hub }: TestApp, user: TestUser) => {
    const found = hub.services.db.selectFrom('user_follows').select('follower_id').where('followed_id', '=', user.id);
    return (await found.execute()).length;
  };
  const attributes = ({ hub }: TestApp, user: TestUser) =>
    hub.services.db
      .selectFrom('custom_attributes')
      .select(['key', 'value'])
      .where('user_id', '=', user.id)
      .orderBy('key')
      .execute();

  const ADMINISTRATORS = {
    anonymous: 'refused',
    stranger: 'refused',
    reader: 'refused',
    user: 'refused',
    administrator: 'done',
  } as const satisfies Record<Role, Outcome>;

  const move = (verb: string, state: string, expected: Outcome = 'done'): Operation => ({
    name: `${verb} from ${state}`,
    state: { state },
    rest: (client, user) => client.post(`/users/${user.id}/${verb}`),
    mutation: `user${verb.charAt(0).toUpperCase()}${verb.slice(1)}`,
    result: row,
    expected: { ...ADMINISTRATORS, administrator: expected },
  });

  const update = (
    name: string,
    rest: Record<string, unknown>,
    input: Record<string, unknown>,
    expected: Outcome,
  ): Operation => ({
    name: `update: ${name}`,
    rest: (client, user) => client.put(`/users/${user.id}`, rest),
    mutation: 'userUpdate',
    input,
    wrongIs404: true,
    result: row,
    expected: { ...ADMINISTRATORS, administrator: expected },
  });

  const operations: readonly Operation[] = [
    move('block', 'active'),
    move('block', 'blocked'),
    move('block', 'ldap_blocked', 'refused'),
    move('unblock', 'blocked'),
    move('unblock', 'deactivated', 'refused'),
    move('ban', 'active'),
    move('ban', 'blocked', 'refused'),
    move('unban', 'banned'),
    move('activate', 'deactivated'),
    move('activate', 'blocked', 'refused'),
    move('deactivate', 'active'),
    move('deactivate', 'banned', 'refused'),
    move('approve', 'blocked_pending_approval'),
    move('approve', 'active', 'refused'),
    move('reject', 'blocked_pending_approval'),
    move('reject', 'active', 'refused'),
    move('unlock', 'active'),
    update('the bio', { bio: 'New.', projects_limit: 3 }, { bio: 'New.', projectsLimit: 3 }, 'done'),
    update('a role', { admin: false }, { admin: false }, 'done'),
    update('a bad limit', { projects_limit: -1 }, { projectsLimit: -1 }, 'wrong'),
    update('a name that is taken', { username: 'root' }, { username: 'root' }, 'wrong'),
    {
      name: 'delete',
      rest: (client, user) => client.delete(`/users/${user.id}`),
      mutation: 'userDelete',
      result: row,
      expected: ADMINISTRATORS,
    },
    {
      name: 'follow',
      rest: (client, user) => client.post(`/users/${user.id}/follow`),
      mutation: 'userFollow',
      result: followers,
      expected: { anonymous: 'refused', stranger: 'done', reader: 'refused', user: 'wrong', administrator: 'done' },
    },
    {
      name: 'follow a private profile',
      state: { private_profile: true },
      rest: (client, user) => client.post(`/users/${user.id}/follow`),
      mutation: 'userFollow',
      result: followers,
      expected: { anonymous: 'refused', stranger: 'refused', reader: 'refused', user: 'wrong', administrator: 'done' },
    },
    {
      name: 'unfollow',
      rest: (client, user) => client.post(`/users/${user.id}/unfollow`),
      mutation: 'userUnfollow',
      result: followers,
      expected: { anonymous: 'refused', stranger: 'done', reader: 'refused', user: 'wrong', administrator: 'done' },
    },
    {
      name: 'change the own profile',
      rest: (client) => client.put('/user', { bio: 'Mine.', timezone: 'Europe/Berlin' }),
      mutation: 'profileUpdate',
      input: { bio: 'Mine.', timezone: 'Europe/Berlin' },
      idField: null,
      result: row,
      expected: { anonymous: 'refused', reader: 'refused', user: 'done' },
    },
    {
      name: 'change the own profile to what it cannot be',
      rest: (client) => client.put('/user', { public_email: 'else@example.com', timezone: 'Nowhere' }),
      mutation: 'profileUpdate',
      input: { publicEmail: 'else@example.com', timezone: 'Nowhere' },
      idField: null,
      result: row,
      expected: { anonymous: 'refused', reader: 'refused', user: 'wrong' },
    },
    {
      name: 'set a custom attribute',
      rest: (client, user) => client.put(`/users/${user.id}/custom_attributes/k`, { value: 'v' }),
      mutation: 'customAttributeSet',
      input: { key: 'k', value: 'v' },
      idField: 'ownerId',
      result: attributes,
      expected: ADMINISTRATORS,
    },
    {
      name: 'remove a custom attribute that is not there',
      rest: (client, user) => client.delete(`/users/${user.id}/custom_attributes/k`),
      mutation: 'customAttributeDelete',
      input: { key: 'k' },
      idField: 'ownerId',
      result: attributes,
      expected: { ...ADMINISTRATORS, administrator: 'refused' },
    },
    {
      name: 'delete an identity that is not there',
      rest: (client, user) => client.delete(`/users/${user.id}/identities/ldapmain`),
      mutation: 'userIdentityDelete',
      input: { provider: 'ldapmain' },
      idField: 'userId',
      result: row,
      expected: { ...ADMINISTRATORS, administrator: 'refused' },
    },
  ];

  it.each(operations.map((operation) => [operation.name, operation] as const))('%s', async (_name, operation) => {
    const { mutation, state, idField = 'id', result } = operation;
    const inputType = `${mutation.charAt(0).toUpperCase()}${mutation.slice(1)}Input`;
    const query = `mutation($input: ${inputType}!) { ${mutation}(input: $input) { errors } }`;
    // Create a token before the account is closed.
    const make = async () => {
      const user = await app().make.user();
      await app().tokenOf(user);
      if (state) await app().hub.services.db.updateTable('users').set(state).where('id', '=', user.id).execute();
      return user;
    };
    for (const role of ROLES) {
      const expected = operation.expected[role];
      if (expected === undefined) continue;
      const [left, right] = [await make(), await make()];
      const before = await result(app(), left);
      const rest = ofRest(await operation.rest(clientOf(role, left), left), operation);
      const input = { ...operation.input, ...(idField === null ? {} : { [idField]: gid(right) }) };
      const graphql = ofGraphql(await clientOf(role, right).graphql(query, { input }));
      expect([role, rest, graphql]).toEqual([role, expected, expected]);
      const [nowLeft, nowRight] = [await result(app(), left), await result(app(), right)];
      expect([role, anonymised(nowRight, right)]).toEqual([role, anonymised(nowLeft, left)]);
      if (expected !== 'done') expect([role, nowLeft]).toEqual([role, before]);
    }
  });

  const anonymised = (value: unknown, { username }: TestUser): unknown =>
    JSON.parse(JSON.stringify(value).replaceAll(username, 'NAME'));

  it('has the same result when it creates one', async () => {
    const query = `mutation($input: UserCreateInput!) { userCreate(input: $input) { errors user { username state } } }`;
    let n = 0;
    const input = () => {
      n += 1;
      return { email: `parity${n}@example.com`, name: 'Parity', username: `parity-${n}`, password: 'a-good-password' };
    };
    const subject = await app().make.user();
    for (const role of ROLES) {
      const client = clientOf(role, subject);
      const [ours, theirs] = [input(), input()];
      const rest = await client.post('/users', ours);
      const { data, errors } = await client.graphql(query, { input: theirs });
      const done = role === 'administrator';
      expect([role, rest.status < 300, errors === undefined && data.userCreate !== null]).toEqual([role, done, done]);
      const made = await app()
        .hub.services.db.selectFrom('users')
        .select('id')
        .where('username', 'in', [ours.username, theirs.username])
        .execute();
      expect([role, made.length]).toEqual([role, done ? 2 : 0]);
    }
    for (const wrong of [{ password: 'short' }, { username: 'root' }, { email: 'nobody' }]) {
      const [ours, theirs] = [
        { ...input(), ...wrong },
        { ...input(), ...wrong },
      ];
      const rest = await app().as(app().root).post('/users', ours);
      const { data } = await app().as(app().root).graphql(query, { input: theirs });
      expect([400, 409]).toContain(rest.status);
      expect(data.userCreate.errors).not.toEqual([]);
      expect(data.userCreate.user).toBeNull();
    }
  });
});

describe('a permission', () => {
  it('shows the rights of the caller over a user', async () => {
    const query = `query($id: UserID) { user(id: $id) { userPermissions { readUserProfile followUser adminUser } } }`;
    const permissions = async (client: Client, user: TestUser) =>
      (await client.graphql(query, { id: gid(user) })).data.user?.userPermissions;
    const [open, closed] = [await app().make.user(), await app().make.user({ private_profile: true })];
    const none = { readUserProfile: false, followUser: false, adminUser: false };
    expect(await permissions(app().as(stranger), open)).toEqual({ ...none, readUserProfile: true, followUser: true });
    expect(await permissions(app().as(stranger), closed)).toEqual(none);
    expect(await permissions(app().as(closed), closed)).toEqual({ ...none, readUserProfile: true });
    expect(await permissions(app().as(app().root), closed)).toEqual({
      readUserProfile: true,
      followUser: true,
      adminUser: true,
    });
  });

  it('restricts reading of custom attributes to administrators', async () => {
    const user = await app().make.user();
    const root = app().as(app().root);
    await root.put(`/users/${user.id}/custom_attributes/team`, { value: 'blue' });
    const query = `query($id: UserID) { user(id: $id) { customAttributes { key value } } }`;
    expect((await root.graphql(query, { id: gid(user) })).data.user.customAttributes).toEqual([
      { key: 'team', value: 'blue' },
    ]);
    for (const each of [user, stranger]) {
      expect(
        (
          await app()
            .as(each)
            .graphql(query, { id: gid(user) })
        ).data.user.customAttributes,
      ).toBeNull();
    }
  });
});
