import { describe, expect, it } from 'vitest';
import { removeGroup } from '#domains/groups/deletion.ts';
import { findEvents } from '../groups/find-events.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { Client } from '../support/client.ts';
import type { TestGroup } from '../support/factories.ts';

const app = useApp();
const admin = () => app().as(app().root);
const withToken = (token: string) => new Client(app().url, () => Promise.resolve(token));
const unique = (() => {
  let n = 0;
  return (word: string) => `${word}${++n}`;
})();

const makeGroup = async () => {
  const owner = await app().make.user();
  const group = await app().make.group({ visibility: 'public' }, owner);
  return { owner, group, accounts: `/groups/${group.id}/service_accounts` };
};

const makeAccount = async (owner: TestUser, group: TestGroup) => {
  const { status, body } = await app().as(owner).post(`/groups/${group.id}/service_accounts`, {});
  expect(status).toBe(201);
  return body;
};

const makeToken = async (owner: TestUser, group: TestGroup, accountId: number) => {
  const path = `/groups/${group.id}/service_accounts/${accountId}/personal_access_tokens`;
  const { status, body } = await app()
    .as(owner)
    .post(path, { name: 'ci', scopes: ['api'] });
  expect(status).toBe(201);
  return body;
};

describe('a service account of a group', () => {
  it('is created by an Owner, with a given or a generated name', async () => {
    const { owner, group, accounts } = await makeGroup();
    const username = unique('deploy');
    const named = await app()
      .as(owner)
      .post(accounts, { name: 'Deploys', username, email: `${username}@example.com` });
    expect(named.status).toBe(201);
    expect(named.body).toMatchObject({ name: 'Deploys', username, email: `${username}@example.com` });
    const plain = await makeAccount(owner, group);
    expect(plain.name).toBe('Service account user');
    expect(plain.username).toMatch(new RegExp(`^service_account_group_${group.id}_[a-z0-9]{32}$`));
    expect(plain.email).toMatch(new RegExp(`^${plain.username}@noreply\\.`));
    const seen = await admin().get(`/users/${plain.id}`);
    expect(seen.body).toMatchObject({
      bot: true,
      using_license_seat: false,
      can_create_group: false,
      provisioned_by_group_id: group.id,
      confirmed_at: null,
    });
    const humans = await admin().get(`/users?humans=true&username=${username}`);
    expect(humans.body).toEqual([]);
  });

  it('is refused if its name or address is taken or invalid', async () => {
    const { owner, accounts } = await makeGroup();
    const other = await app().make.user();
    const client = app().as(owner);
    expect((await client.post(accounts, { username: other.username })).status).toBe(409);
    expect((await client.post(accounts, { email: `${other.username}@example.com` })).status).toBe(409);
    expect((await client.post(accounts, { username: 'a b' })).status).toBe(400);
    expect((await client.post(accounts, { email: 'nobody' })).status).toBe(400);
    expect((await client.post(accounts, { email: ['a@example.com'] })).status).toBe(400);
    expect((await client.get(accounts)).body).toEqual([]);
    const { body: made } = await client.post(accounts, { username: `${other.username}.bot` });
    const again = await client.post(accounts, { username: made.username });
    expect([again.status, again.body]).toEqual([409, { message: 'Username has already been taken' }]);
  });

  it('is visible to and created by no one else', async () => {
    const { owner, group, accounts } = await makeGroup();
    const account = await makeAccount(owner, group);
    const maintainer = await app().make.user();
    await app().make.groupMember(group, maintainer, 40);
    const stranger = await app().make.user();
    for (const [user, status] of [
      [maintainer, 403],
      [stranger, 403],
    ] as const) {
      const client = app().as(user);
      expect((await client.get(accounts)).status).toBe(status);
      expect((await client.post(accounts, {})).status).toBe(status);
      expect((await client.patch(`${accounts}/${account.id}`, { name: 'Mine' })).status).toBe(status);
      expect((await client.delete(`${accounts}/${account.id}`)).status).toBe(status);
      const tokens = `${accounts}/${account.id}/personal_access_tokens`;
      expect((await client.post(tokens, { name: 'x', scopes: ['api'] })).status).toBe(status);
      expect((await client.get(tokens)).status).toBe(status);
      expect((await client.get('/service_accounts')).status).toBe(403);
      expect((await client.post('/service_accounts', {})).status).toBe(403);
    }
    expect((await app().anonymous.get(accounts)).status).toBe(401);
    const hidden = await app().make.group({}, owner);
    expect((await app().as(stranger).get(`/groups/${hidden.id}/service_accounts`)).status).toBe(404);
    expect((await app().as(owner).get(accounts)).body).toHaveLength(1);
  });

  it('belongs to one top-level group only', async () => {
    const { owner, group } = await makeGroup();
    const subgroup = await app().make.group({ parent_id: group.id }, owner);
    expect((await app().as(owner).post(`/groups/${subgroup.id}/service_accounts`, {})).status).toBe(400);
    const other = await makeGroup();
    const account = await makeAccount(owner, group);
    const foreign = `${other.accounts}/${account.id}`;
    const client = app().as(other.owner);
    expect((await client.patch(foreign, { name: 'x' })).status).toBe(404);
    expect((await client.delete(foreign)).status).toBe(404);
    expect((await client.post(`${foreign}/personal_access_tokens`, { name: 'x', scopes: ['api'] })).status).toBe(404);
    expect((await client.delete(`${other.accounts}/${owner.id}`)).status).toBe(404);
    expect((await client.delete(`${other.accounts}/${other.owner.id}`)).status).toBe(404);
  });

  it('is listed in the requested order', async () => {
    const { owner, accounts } = await makeGroup();
    const client = app().as(owner);
    const names = [unique('zz'), unique('aa')];
    for (const username of names) await client.post(accounts, { username });
    const usernames = async (query: string) =>
      (await client.get(`${accounts}${query}`)).body.map((each: { username: string }) => each.username);
    expect(await usernames('')).toEqual(names.toReversed());
    expect(await usernames('?order_by=username&sort=asc')).toEqual(names.toReversed());
    expect(await usernames('?order_by=id&sort=asc')).toEqual(names);
    expect((await client.get(`${accounts}?order_by=email`)).status).toBe(400);
  });

  it('can change its name and address, which is then unconfirmed', async () => {
    const { owner, group, accounts } = await makeGroup();
    const account = await makeAccount(owner, group);
    const username = unique('renamed');
    const changed = await app().as(owner).patch(`${accounts}/${account.id}`, { name: 'New', username });
    expect(changed.body).toMatchObject({ id: account.id, name: 'New', username, email: account.email });
    const moved = await app()
      .as(owner)
      .put(`${accounts}/${account.id}`, { email: `${username}@example.com` });
    expect(moved.body.email).toBe(`${username}@example.com`);
    expect((await admin().get(`/users/${account.id}`)).body.confirmed_at).toBeNull();
    const other = await app().make.user();
    const taken = await app().as(owner).patch(`${accounts}/${account.id}`, { username: other.username });
    expect(taken.status).toBe(409);
  });

  it('authenticates by token, and never by password', async () => {
    const { owner, group } = await makeGroup();
    const account = await makeAccount(owner, group);
    const { token } = await makeToken(owner, group, account.id);
    expect((await withToken(token).get('/user')).body).toMatchObject({ id: account.id, username: account.username });
    // Such an account is not an administrator, and may do no more than a member.
    expect((await withToken(token).get('/application/settings')).status).toBe(403);
    const answer = await app().anonymous.post('/api/graphql', {
      query: 'mutation { groupCreate(input: { name: "x", path: "x" }) { errors } }',
    });
    expect(answer.body.errors).toBeDefined();
    expect((await withToken(token).post('/groups', { name: 'x', path: unique('own') })).status).toBe(403);
  });

  it('is external if its Owner is external', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    await admin().put(`/users/${owner.id}`, { external: true });
    const account = await makeAccount(owner, group);
    expect((await admin().get(`/users/${account.id}`)).body.external).toBe(true);
  });
});

describe('a token of a service account', () => {
  it('is created, listed, rotated and revoked by an Owner', async () => {
    const { owner, group, accounts } = await makeGroup();
    const account = await makeAccount(owner, group);
    const path = `${accounts}/${account.id}/personal_access_tokens`;
    const first = await makeToken(owner, group, account.id);
    expect(first).toMatchObject({ name: 'ci', user_id: account.id, scopes: ['api'], active: true, revoked: false });
    expect(first.token).toMatch(/^glpat-/);
    const listed = await app().as(owner).get(path);
    expect(listed.body).toHaveLength(1);
    expect(listed.body[0]).not.toHaveProperty('token');
    const rotated = await app().as(owner).post(`${path}/${first.id}/rotate`);
    expect(rotated.status).toBe(201);
    expect(rotated.body.id).not.toBe(first.id);
    expect((await withToken(first.token).get('/user')).status).toBe(401);
    expect((await withToken(rotated.body.token).get('/user')).status).toBe(200);
    expect((await app().as(owner).post(`${path}/${first.id}/rotate`)).status).toBe(400);
    expect((await app().as(owner).delete(`${path}/${rotated.body.id}`)).status).toBe(204);
    expect((await withToken(rotated.body.token).get('/user')).status).toBe(401);
    expect((await app().as(owner).get(`${path}?state=active`)).body).toEqual([]);
  });

  it("gets no administrative scope, and no scope beyond that of the caller's token", async () => {
    const { owner, group, accounts } = await makeGroup();
    const account = await makeAccount(owner, group);
    const path = `${accounts}/${account.id}/personal_access_tokens`;
    for (const scopes of [['sudo'], ['admin_mode'], ['nonsense'], []]) {
      expect((await app().as(owner).post(path, { name: 'x', scopes })).status).toBe(400);
      expect((await admin().post(path, { name: 'x', scopes })).status).toBe(400);
    }
    expect(
      (
        await app()
          .as(owner)
          .post(path, { scopes: ['api'] })
      ).status,
    ).toBe(400);
    expect(
      (
        await app()
          .as(owner, ['read_api'])
          .post(path, { name: 'x', scopes: ['read_api'] })
      ).status,
    ).toBe(403);
    expect((await app().as(owner).get(path)).body).toEqual([]);
  });

  it('is reached only through its own account', async () => {
    const { owner, group, accounts } = await makeGroup();
    const [one, two] = [await makeAccount(owner, group), await makeAccount(owner, group)];
    const token = await makeToken(owner, group, one.id);
    const wrong = `${accounts}/${two.id}/personal_access_tokens/${token.id}`;
    expect((await app().as(owner).delete(wrong)).status).toBe(404);
    expect((await app().as(owner).post(`${wrong}/rotate`)).status).toBe(404);
    expect((await withToken(token.token).get('/user')).status).toBe(200);
  });

  it('has to expire, unless the group allows otherwise', async () => {
    const { owner, group, accounts } = await makeGroup();
    const account = await makeAccount(owner, group);
    const path = `${accounts}/${account.id}/personal_access_tokens`;
    const make = async (expires_at?: string | null) =>
      (
        await app()
          .as(owner)
          .post(path, { name: 'x', scopes: ['api'], ...(expires_at === undefined ? {} : { expires_at }) })
      ).body.expires_at;
    expect(await make(null)).toMatch(/^\d{4}-/);
    expect(await make()).toMatch(/^\d{4}-/);
    const off = await app().as(owner).put(`/groups/${group.id}`, { service_access_tokens_expiration_enforced: false });
    expect(off.status).toBe(200);
    expect(await make(null)).toBeNull();
    expect(await make()).toMatch(/^\d{4}-/);
    // The same holds when the account rotates its own token.
    const { token } = await makeToken(owner, group, account.id);
    const lasting = await withToken(token).post('/personal_access_tokens/self/rotate', { expires_at: null });
    expect(lasting.body.expires_at).toBeNull();
    await app().as(owner).put(`/groups/${group.id}`, { service_access_tokens_expiration_enforced: true });
    const ending = await withToken(lasting.body.token).post('/personal_access_tokens/self/rotate', {
      expires_at: null,
    });
    expect(ending.body.expires_at).toMatch(/^\d{4}-/);
  });
});

describe('deleting a service account', () => {
  const withIssue = async () => {
    const { owner, group, accounts } = await makeGroup();
    const account = await makeAccount(owner, group);
    const { token } = await makeToken(owner, group, account.id);
    const project = await app().make.project({ namespace_id: group.id, visibility: 'public' }, owner);
    const issue = await withToken(token).post(`/projects/${project.id}/issues`, { title: 'By a machine' });
    expect(issue.status).toBe(201);
    return { owner, group, account, token, project, issue: issue.body, path: `${accounts}/${account.id}` };
  };

  it('moves its issues to the ghost user, and revokes its tokens', async () => {
    const { owner, account, token, project, issue, path } = await withIssue();
    expect((await app().as(owner).delete(path)).status).toBe(204);
    expect((await withToken(token).get('/user')).status).toBe(401);
    expect((await admin().get(`/users/${account.id}`)).status).toBe(404);
    const read = await admin().get(`/projects/${project.id}/issues/${issue.iid}`);
    expect(read.body.author.name).toBe('Ghost User');
    expect((await app().as(owner).delete(path)).status).toBe(404);
  });

  it('deletes its issues with hard_delete', async () => {
    const { owner, project, issue, path } = await withIssue();
    expect((await app().as(owner).delete(`${path}?hard_delete=true`)).status).toBe(204);
    expect((await admin().get(`/projects/${project.id}/issues/${issue.iid}`)).status).toBe(404);
  });

  it('deletes with hard_delete the groups that only it owns, except the group that it belongs to', async () => {
    const { owner, group, account, path } = await withIssue();
    const [alone, shared] = [await app().make.group({}, owner), await app().make.group({}, owner)];
    for (const each of [group, alone, shared]) await app().make.groupMember(each, account, 50);
    expect((await app().as(owner).delete(`/groups/${alone.id}/members/${owner.id}`)).status).toBe(204);
    expect((await app().as(owner).delete(path)).status).toBe(409);
    expect((await app().as(owner).delete(`${path}?hard_delete=true`)).status).toBe(204);
    expect((await admin().get(`/groups/${alone.id}`)).status).toBe(404);
    for (const { id } of [group, shared]) expect((await admin().get(`/groups/${id}`)).status).toBe(200);
  });

  it('is refused while a group has no other Owner but one who is blocked, and deletes nothing', async () => {
    const { owner, account, issue, project, path } = await withIssue();
    const [alone, shared] = [await app().make.group({}, owner), await app().make.group({}, owner)];
    for (const each of [alone, shared]) await app().make.groupMember(each, account, 50);
    const blocked = await app().make.user();
    await app().make.groupMember(shared, blocked, 50);
    for (const { id } of [alone, shared]) {
      expect((await app().as(owner).delete(`/groups/${id}/members/${owner.id}`)).status).toBe(204);
    }
    expect((await admin().post(`/users/${blocked.id}/block`)).status).toBe(201);
    for (const query of ['', '?hard_delete=true']) {
      const refused = await app().as(owner).delete(`${path}${query}`);
      expect([refused.status, refused.body]).toEqual([
        409,
        { message: 'User cannot be removed while is the sole-owner of a group' },
      ]);
    }
    for (const { id } of [alone, shared]) expect((await admin().get(`/groups/${id}`)).status).toBe(200);
    expect((await admin().get(`/projects/${project.id}/issues/${issue.iid}`)).status).toBe(200);
    expect((await admin().post(`/users/${blocked.id}/unblock`)).status).toBe(201);
    expect((await app().as(owner).delete(`${path}?hard_delete=true`)).status).toBe(204);
    expect((await admin().get(`/groups/${alone.id}`)).status).toBe(404);
    expect((await admin().get(`/groups/${shared.id}`)).status).toBe(200);
  });

  it('happens with its group', async () => {
    const { owner, group, account, token } = await withIssue();
    await removeGroup(app().context(owner), group.id);
    const deleted = (await findEvents(app(), 'User', account.id)).filter(({ kind }) => kind === 'user.deleted');
    expect(deleted.map(({ actor_id }) => actor_id)).toEqual([owner.id]);
    expect((await withToken(token).get('/user')).status).toBe(401);
    expect((await admin().get(`/users/${account.id}`)).status).toBe(404);
  });
});

describe('a service account of a group that moves below another', () => {
  it('belongs to the top-level group from then on', async () => {
    const { owner, group, accounts } = await makeGroup();
    const account = await makeAccount(owner, group);
    const { id, token } = await makeToken(owner, group, account.id);
    const [lead, guest] = [await app().make.user(), await app().make.user()];
    const top = await app().make.group({ visibility: 'public' }, lead);
    const middle = await app().make.group({ parent_id: top.id, visibility: 'public' }, lead);
    await app().make.groupMember(middle, owner, 50);
    await app().make.groupMember(top, guest, 10);
    const moved = await app().as(owner).post(`/groups/${group.id}/transfer`, { group_id: middle.id });
    expect(moved.status).toBe(201);
    expect((await app().as(owner).get(accounts)).status).toBe(400);
    const path = `/groups/${top.id}/service_accounts`;
    expect((await app().as(owner).get(path)).status).toBe(403);
    expect((await app().as(guest).get(path)).status).toBe(403);
    expect((await app().as(lead).get(path)).body).toMatchObject([{ id: account.id }]);
    expect((await withToken(token).get('/user')).status).toBe(200);
    expect((await app().as(lead).delete(`${path}/${account.id}/personal_access_tokens/${id}`)).status).toBe(204);
    expect((await withToken(token).get('/user')).status).toBe(401);
    await removeGroup(app().context(), group.id);
    await app().settle();
    expect((await admin().get(`/users/${account.id}`)).status).toBe(200);
  });
});

describe('a service account of a deleted group', () => {
  it('is blocked while it is the only Owner of another group, and the others are deleted', async () => {
    const { owner, group } = await makeGroup();
    const [account, other] = [await makeAccount(owner, group), await makeAccount(owner, group)];
    const { token } = await makeToken(owner, group, account.id);
    const alone = await app().make.group({}, owner);
    await app().make.groupMember(alone, account, 50);
    expect((await app().as(owner).delete(`/groups/${alone.id}/members/${owner.id}`)).status).toBe(204);
    expect((await withToken(token).get('/user')).status).toBe(200);
    await removeGroup(app().context(), group.id);
    await app().settle();
    expect((await admin().get(`/users/${other.id}`)).status).toBe(404);
    expect((await withToken(token).get('/user')).status).toBe(403);
    expect((await admin().get(`/users/${account.id}`)).body.state).toBe('blocked');
    expect((await admin().get(`/groups/${alone.id}`)).status).toBe(200);
    // An administrator hands the group over, and can then delete the account.
    await admin().post(`/groups/${alone.id}/members`, { user_id: owner.id, access_level: 50 });
    expect((await admin().delete(`/users/${account.id}`)).status).toBe(204);
  });
});

describe('a service account of the instance', () => {
  it('is created, changed and listed by administrators', async () => {
    const made = await admin().post('/service_accounts', { name: 'Backup' });
    expect(made.status).toBe(201);
    expect(made.body.username).toMatch(/^service_account_[a-z0-9]{32}$/);
    const changed = await admin().patch(`/service_accounts/${made.body.id}`, { name: 'Backups' });
    expect(changed.body.name).toBe('Backups');
    const listed = await admin().get('/service_accounts?per_page=1');
    expect(listed.body[0].id).toBe(made.body.id);
    const { owner, group } = await makeGroup();
    const account = await makeAccount(owner, group);
    expect((await admin().patch(`/service_accounts/${account.id}`, { name: 'x' })).status).toBe(404);
  });
});

describe('a service account over GraphQL', () => {
  it('follows the same rules, and is visible only to Owners', async () => {
    const { owner, group } = await makeGroup();
    const client = app().as(owner);
    const made = await client.graphql(
      `mutation ($path: ID) { serviceAccountCreate(input: { groupPath: $path, name: "Bot" })
        { serviceAccount { id name bot type } errors } }`,
      { path: group.full_path },
    );
    const { serviceAccount } = made.data.serviceAccountCreate;
    expect(serviceAccount).toMatchObject({ name: 'Bot', bot: true, type: 'SERVICE_ACCOUNT' });
    const token = await client.graphql(
      `mutation ($path: ID, $id: UserID!) { serviceAccountTokenCreate(input: { groupPath: $path, userId: $id, name: "t",
        scopes: ["api"] }) { token personalAccessToken { id name } errors } }`,
      { path: group.full_path, id: serviceAccount.id },
    );
    const created = token.data.serviceAccountTokenCreate;
    expect(created.errors).toEqual([]);
    const rotated = await client.graphql(
      `mutation ($path: ID, $id: UserID!, $token: PersonalAccessTokenID!) { serviceAccountTokenRotate(input: {
        groupPath: $path, userId: $id, id: $token }) { token personalAccessToken { id } errors } }`,
      { path: group.full_path, id: serviceAccount.id, token: created.personalAccessToken.id },
    );
    expect(rotated.data.serviceAccountTokenRotate.token).toMatch(/^glpat-/);
    expect((await withToken(created.token).get('/user')).status).toBe(401);
    const QUERY = `query ($path: ID!, $id: UserID!) { group(fullPath: $path) {
      serviceAccounts { nodes { id } } serviceAccountTokens(userId: $id) { nodes { name active } } } }`;
    const variables = { path: group.full_path, id: serviceAccount.id };
    const seen = await client.graphql(QUERY, variables);
    expect(seen.data.group.serviceAccounts.nodes).toEqual([{ id: serviceAccount.id }]);
    expect(seen.data.group.serviceAccountTokens.nodes).toHaveLength(2);
    const stranger = await app().make.user();
    const hidden = await app().as(stranger).graphql(QUERY, variables);
    expect(hidden.data.group).toEqual({ serviceAccounts: null, serviceAccountTokens: null });
    const refused = await app()
      .as(stranger)
      .graphql(`mutation ($path: ID) { serviceAccountCreate(input: { groupPath: $path }) { errors } }`, {
        path: group.full_path,
      });
    expect(refused.errors).toBeDefined();
  });
});
