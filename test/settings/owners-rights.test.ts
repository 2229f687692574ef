import { afterEach, describe, expect, it } from 'vitest';
import { userIdsByAddresses } from '#domains/users/addresses.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const set = async (settings: Record<string, unknown>) =>
  expect((await app().as(app().root).put('/application/settings', settings)).status).toBe(200);

afterEach(() =>
  set({
    group_owners_can_manage_default_branch_protection: true,
    default_project_deletion_protection: false,
    commit_email_hostname: '',
  }),
);

describe('group_owners_can_manage_default_branch_protection', () => {
  it('leaves the protection of default branches to administrators when it is off', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const put = async (body: Record<string, unknown>, by = app().as(owner)) =>
      (await by.put(`/groups/${group.id}`, body)).status;
    expect(await put({ default_branch_protection: 1 })).toBe(200);
    await set({ group_owners_can_manage_default_branch_protection: false });
    expect(await put({ default_branch_protection: 0 })).toBe(403);
    expect(await put({ default_branch_protection_defaults: { allow_force_push: true } })).toBe(403);
    const create = await app().as(owner).post('/groups', { name: 'x', path: 'x', default_branch_protection: 0 });
    expect([create.status, create.body.message]).toEqual([
      403,
      '403 Forbidden - only administrators can change the default branch protection of groups',
    ]);
    const { errors } = await app()
      .as(owner)
      .graphql(`mutation { groupUpdate(input: { fullPath: "${group.full_path}",
      defaultBranchProtectionDefaults: { allowForcePush: true } }) { group { id } } }`);
    expect(errors).toHaveLength(1);
    expect((await app().as(owner).get(`/groups/${group.id}`)).body.default_branch_protection).toBe(1);
    expect(await put({ description: 'Still mine' })).toBe(200);
    expect(await put({ default_branch_protection: 0 }, app().as(app().root))).toBe(200);
  });
});

describe('default_project_deletion_protection', () => {
  it('leaves the deletion of projects to administrators', async () => {
    const owner = await app().make.user();
    const [first, second] = [await app().make.project({}, owner), await app().make.project({}, owner)];
    const remove = async (id: number, by = app().as(owner)) => (await by.delete(`/projects/${id}`)).status;
    await set({ default_project_deletion_protection: true });
    expect(await remove(first.id)).toBe(403);
    expect((await app().as(owner).get(`/projects/${first.id}`)).body.marked_for_deletion_on ?? null).toBeNull();
    expect(await remove(first.id, app().as(app().root))).toBe(202);
    await set({ default_project_deletion_protection: false });
    expect(await remove(second.id)).toBe(202);
  });
});

describe('commit_email_hostname', () => {
  it('is the domain of private addresses in commits, which still name their user', async () => {
    const user = await app().make.user({ commit_email: '_private' });
    const project = await app().make.project({ initialize_with_readme: true }, user);
    const commit = async (file: string) => {
      const body = {
        branch: 'main',
        commit_message: 'x',
        actions: [{ action: 'create', file_path: file, content: file }],
      };
      return (await app().as(user).post(`/projects/${project.id}/repository/commits`, body)).body.author_email;
    };
    const name = `${user.id}-${user.username}`;
    expect(await commit('a')).toBe(`${name}@users.noreply.127.0.0.1`);
    await set({ commit_email_hostname: 'private.example.com' });
    expect(await commit('b')).toBe(`${name}@private.example.com`);
    expect((await app().as(user).get('/user')).body.commit_email).toBe(`${name}@private.example.com`);
    const { data } = await app().as(user).graphql('{ currentUser { commitEmail } }');
    expect(data.currentUser.commitEmail).toBe(`${name}@private.example.com`);
    // Commits with the former address are still theirs.
    const addresses = ['private.example.com', 'users.noreply.127.0.0.1', 'elsewhere.example.com'];
    const ids = await userIdsByAddresses(
      app().context(),
      addresses.map((host) => `${name}@${host}`),
    );
    expect(addresses.map((host) => ids.get(`${name}@${host}`))).toEqual([user.id, user.id, undefined]);
  });

  it('leads to users only by confirmed addresses, except where that would free them from a restriction', async () => {
    const [{ id }, { id: stranger }] = [await app().make.user(), await app().make.user()];
    const own = `Own-${id}@example.com`;
    const claimed = `claimed-${stranger}@example.com`;
    const { pool } = app().hub.services;
    await pool.query('update users set email = $2 where id = $1', [id, own]);
    await pool.query('update users set email = $2, confirmed_at = null where id = $1', [stranger, claimed]);
    const found = (options?: { readonly unconfirmedToo: boolean }) =>
      userIdsByAddresses(app().context(), [own, claimed], options);
    expect([...(await found())]).toEqual([[own.toLowerCase(), id]]);
    expect((await found({ unconfirmedToo: true })).get(claimed)).toBe(stranger);
  });
});
