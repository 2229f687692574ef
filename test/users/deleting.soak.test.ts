import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { ghostUser } from '#domains/users/accounts/ghost.ts';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root);

/** Creates a user who has written one record of each kind in a project of another user. */
const makeAuthor = async () => {
  const author = await app().make.user();
  const project = await app().make.project({ visibility: 'public' });
  await app().make.projectMember(project, author, 40);
  const issue = (await app().as(author).post(`/projects/${project.id}/issues`, { title: 'Mine' })).body;
  const other = (await admin().post(`/projects/${project.id}/issues`, { title: 'Of others' })).body;
  const note = (await app().as(author).post(`/projects/${project.id}/issues/${other.iid}/notes`, { body: 'Hm' })).body;
  const { db } = app().hub.services;
  const branches = { source_branch: 's', target_branch: 't', source_project_id: project.id };
  const mergeRequest = await db
    .insertInto('merge_requests')
    .values({ project_id: project.id, iid: 1, title: 'Mine', author_id: author.id, ...branches })
    .returning('id')
    .executeTakeFirstOrThrow();
  await db
    .insertInto('award_emoji')
    .values([
      { name: 'tada', user_id: author.id, issue_id: other.id },
      { name: 'eyes', user_id: author.id, note_id: note.id },
    ])
    .execute();
  return { author, project, issue, other, note, mergeRequest };
};

const remove = (user: TestUser, query = '') => admin().delete(`/users/${user.id}${query}`);

describe('deleting a user', () => {
  it('moves their records to the single ghost user', async () => {
    const first = await makeAuthor();
    const second = await makeAuthor();
    const [one, two] = await Promise.all([remove(first.author), remove(second.author)]);
    expect([one.status, two.status]).toEqual([204, 204]);
    const issue = await admin().get(`/projects/${first.project.id}/issues/${first.issue.iid}`);
    expect(issue.body).toMatchObject({ title: 'Mine', author: { name: 'Ghost User', username: 'ghost' } });
    const ghost = issue.body.author.id;
    const { db } = app().hub.services;
    const awards = db.selectFrom('award_emoji').select(['name', 'user_id']);
    for (const { other, note, mergeRequest } of [first, second]) {
      const read = await db.selectFrom('notes').select('author_id').where('id', '=', note.id).executeTakeFirst();
      expect(read?.author_id).toBe(ghost);
      const merge = await db
        .selectFrom('merge_requests')
        .select('author_id')
        .where('id', '=', mergeRequest.id)
        .executeTakeFirst();
      expect(merge?.author_id).toBe(ghost);
      expect(await awards.where('issue_id', '=', other.id).execute()).toEqual([{ name: 'tada', user_id: ghost }]);
      expect(await awards.where('note_id', '=', note.id).execute()).toEqual([{ name: 'eyes', user_id: ghost }]);
    }
  });

  it('counts only Owners of a group who can act', async () => {
    const [owner, other] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({}, owner);
    await app().make.groupMember(group, other, 50);
    expect((await admin().post(`/users/${other.id}/block`)).status).toBe(201);
    expect((await app().as(owner).delete(`/groups/${group.id}/members/${owner.id}`)).status).toBe(403);
    expect((await remove(owner)).status).toBe(409);
    expect((await admin().post(`/users/${other.id}/unblock`)).status).toBe(201);
    expect((await remove(owner)).status).toBe(204);
  });

  it('ends memberships with an event for each', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const project = await app().make.project({ namespace_id: group.id }, owner);
    for (const query of ['', '?hard_delete=true']) {
      const user = await app().make.user();
      await app().make.groupMember(group, user, 30);
      await app().make.projectMember(project, user, 40);
      // Their own project goes with them, and so do its members.
      await app().make.project({}, user);
      expect((await remove(user, query)).status).toBe(204);
      const events = await app()
        .hub.services.db.selectFrom('events')
        .select(['subject_type', 'project_id', 'payload'])
        .where('kind', '=', 'member.removed')
        .where(sql<boolean>`user_ids = array[${user.id}::bigint]`)
        .orderBy('id')
        .execute();
      const payload = expect.objectContaining({ user: expect.objectContaining({ username: user.username }) });
      expect(events).toEqual([
        { subject_type: 'GroupMember', project_id: null, payload },
        { subject_type: 'ProjectMember', project_id: project.id, payload },
      ]);
    }
  });

  it('keeps one award of each name for the ghost user', async () => {
    const { author, other } = await makeAuthor();
    const { db } = app().hub.services;
    const second = await app().make.user();
    await db.insertInto('award_emoji').values({ name: 'tada', user_id: second.id, issue_id: other.id }).execute();
    expect([(await remove(author)).status, (await remove(second)).status]).toEqual([204, 204]);
    const left = await db.selectFrom('award_emoji').select('name').where('issue_id', '=', other.id).execute();
    expect(left).toEqual([{ name: 'tada' }]);
  });

  it('deletes their records on request, and nothing of others', async () => {
    const { author, project, issue, other, note, mergeRequest } = await makeAuthor();
    const count = async () => (await admin().get(`/projects/${project.id}`)).body.open_issues_count;
    expect(await count()).toBe(2);
    expect((await remove(author, '?hard_delete=true')).status).toBe(204);
    expect((await admin().get(`/projects/${project.id}/issues/${issue.iid}`)).status).toBe(404);
    expect((await admin().get(`/projects/${project.id}/issues/${other.iid}`)).status).toBe(200);
    expect((await admin().get(`/projects/${project.id}/issues/${other.iid}/notes/${note.id}`)).status).toBe(404);
    const { db } = app().hub.services;
    expect(await db.selectFrom('merge_requests').select('id').where('id', '=', mergeRequest.id).execute()).toEqual([]);
    expect(await count()).toBe(1);
  });

  it('deletes on request the groups that nobody else owns, over both interfaces', async () => {
    const removals = [
      async (user: TestUser) => expect((await remove(user, '?hard_delete=true')).status).toBe(204),
      async (user: TestUser) => {
        const mutation = `mutation { userDelete(input: { id: "gid://gitlab/User/${user.id}", hardDelete: true }) { errors } }`;
        expect((await admin().graphql(mutation)).data.userDelete.errors).toEqual([]);
      },
    ];
    for (const removeHard of removals) {
      const [owner, blocked, other] = await app().make.users(3);
      if (!(owner && blocked && other)) throw new Error('there are too few users');
      const [alone, kept, shared] = [
        await app().make.group({}, owner),
        await app().make.group({}, owner),
        await app().make.group({}, owner),
      ];
      const below = await app().make.group({ parent_id: alone.id }, owner);
      const project = await app().make.project({ namespace_id: below.id }, owner);
      await app().make.groupMember(alone, other, 40);
      await app().make.groupMember(kept, blocked, 50);
      await app().make.groupMember(shared, other, 50);
      expect((await remove(owner)).status).toBe(409);
      // A group whose other Owner is blocked is not deleted, and keeps the account.
      await admin().post(`/users/${blocked.id}/block`);
      expect((await remove(owner, '?hard_delete=true')).status).toBe(409);
      expect((await admin().get(`/groups/${alone.id}`)).status).toBe(200);
      await admin().post(`/users/${blocked.id}/unblock`);
      await removeHard(owner);
      for (const path of [`/groups/${alone.id}`, `/groups/${below.id}`, `/projects/${project.id}`]) {
        expect([path, (await admin().get(path)).status]).toEqual([path, 404]);
      }
      for (const { id } of [kept, shared]) expect((await admin().get(`/groups/${id}`)).status).toBe(200);
    }
  });

  it('emits an event for administrators', async () => {
    const user = await app().make.user();
    await remove(user);
    const event = await app()
      .hub.services.db.selectFrom('events')
      .select(['payload', 'user_ids', 'actor_id'])
      .where('kind', '=', 'user.deleted')
      .where('subject_id', '=', user.id)
      .executeTakeFirstOrThrow();
    expect(event).toMatchObject({ actor_id: app().root.id, user_ids: [], payload: { username: user.username } });
    expect(Object.keys(event.payload ?? {}).sort()).toEqual(['id', 'name', 'namespace_id', 'state', 'username']);
  });
});

describe('an OAuth application of a deleted user', () => {
  it('is deleted too, with an event, while those of others stay', async () => {
    const [user, other] = [await app().make.user(), await app().make.user()];
    const register = async (owner: TestUser, name: string) => {
      const input = { name, redirectUris: ['http://127.0.0.1/callback'], scopes: ['read_api'] };
      const { data } = await app()
        .as(owner)
        .graphql(
          'mutation ($input: OauthApplicationCreateInput!) { oauthApplicationCreate(input: $input) { secret oauthApplication { id } } }',
          { input },
        );
      const { oauthApplication, secret } = data.oauthApplicationCreate;
      return { id: Number(oauthApplication.id.split('/').at(-1)), secret: String(secret) };
    };
    const [first, second] = [await register(user, 'First'), await register(user, 'Second')];
    const kept = await register(other, 'Kept');
    expect((await remove(user)).status).toBe(204);
    const { db } = app().hub.services;
    const ids = [first.id, second.id, kept.id];
    const left = await db.selectFrom('oauth_applications').select('id').where('id', 'in', ids).execute();
    expect(left).toEqual([{ id: kept.id }]);
    const events = await db
      .selectFrom('events')
      .select(['subject_id', 'actor_id', 'payload'])
      .where('kind', '=', 'oauth_application.deleted')
      .where('subject_type', '=', 'OauthApplication')
      .where('subject_id', 'in', ids)
      .orderBy('subject_id')
      .execute();
    expect(events).toMatchObject([
      { subject_id: first.id, actor_id: app().root.id, payload: { name: 'First', owner_id: user.id } },
      { subject_id: second.id, actor_id: app().root.id, payload: { name: 'Second', owner_id: user.id } },
    ]);
    expect(JSON.stringify(events)).not.toContain(first.secret);
  });
});

describe('the ghost user', () => {
  const ghost = () => app().context().transaction(ghostUser);

  it('cannot be changed or deleted, and cannot sign in', async () => {
    const id = await ghost();
    expect((await admin().put(`/users/${id}`, { password: 'a-good-password' })).status).toBe(403);
    expect((await admin().put(`/users/${id}`, { admin: true })).status).toBe(403);
    expect((await admin().delete(`/users/${id}`)).status).toBe(403);
    const { body } = await admin().get(`/users/${id}`);
    expect(body).toMatchObject({ is_admin: false, confirmed_at: null, using_license_seat: false, namespace_id: null });
    const { db } = app().hub.services;
    const row = await db.selectFrom('users').select('password_hash').where('id', '=', id).executeTakeFirst();
    expect(row?.password_hash).toBeNull();
  });

  it('is created only once by concurrent requests, with another name if its own is taken', async () => {
    const { db } = app().hub.services;
    await db.deleteFrom('users').where('user_type', '=', 'ghost').execute();
    const person = await app().make.user({ username: 'GHOST' });
    const ids = await Promise.all(Array.from({ length: 8 }, ghost));
    expect(new Set(ids).size).toBe(1);
    const ghosts = await db.selectFrom('users').select('username').where('user_type', '=', 'ghost').execute();
    expect(ghosts).toEqual([{ username: 'ghost1' }]);
    expect(ids).not.toContain(person.id);
    expect((await admin().get('/users?exclude_internal=true&per_page=100')).body).not.toContainEqual(
      expect.objectContaining({ username: 'ghost1' }),
    );
  });
});
