import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();

const follow = (who: TestUser, whom: { readonly id: number }) => app().as(who).post(`/users/${whom.id}/follow`);
const unfollow = (who: TestUser, whom: { readonly id: number }) => app().as(who).post(`/users/${whom.id}/unfollow`);

const countsOf = async (user: TestUser, seenBy: TestUser) => {
  const { followers, following, is_followed } = (await app().as(seenBy).get(`/users/${user.id}`)).body;
  return { followers, following, is_followed };
};

const eventsOf = async (user: TestUser) =>
  app()
    .hub.services.db.selectFrom('events')
    .select(['kind', 'user_ids', 'payload'])
    .where('subject_type', '=', 'User')
    .where('subject_id', '=', user.id)
    .where('kind', 'in', ['user.followed', 'user.unfollowed'])
    .orderBy('id')
    .execute();

describe('following', () => {
  it('emits one event, counts on both sides, and can be undone', async () => {
    const [fan, star, other] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const first = await follow(fan, star);
    expect(first.status).toBe(201);
    expect(first.body).toMatchObject({ id: star.id, username: star.username, state: 'active' });
    expect((await follow(fan, star)).status).toBe(304);
    expect(await countsOf(star, fan)).toEqual({ followers: 1, following: 0, is_followed: true });
    expect(await countsOf(star, other)).toEqual({ followers: 1, following: 0, is_followed: false });
    expect(await countsOf(fan, other)).toEqual({ followers: 0, following: 1, is_followed: false });
    expect((await unfollow(fan, star)).status).toBe(201);
    expect((await unfollow(fan, star)).status).toBe(304);
    expect(await countsOf(star, fan)).toEqual({ followers: 0, following: 0, is_followed: false });
    const payload = { id: star.id, follower_id: fan.id };
    expect(await eventsOf(star)).toEqual([
      { kind: 'user.followed', user_ids: [star.id, fan.id], payload },
      { kind: 'user.unfollowed', user_ids: [star.id, fan.id], payload },
    ]);
  });

  it('counts once for twenty concurrent requests', async () => {
    const [fan, star] = [await app().make.user(), await app().make.user()];
    const answers = await Promise.all(Array.from({ length: 20 }, () => follow(fan, star)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 304)).toHaveLength(19);
    expect(await eventsOf(star)).toHaveLength(1);
  });

  it('is refused for oneself, for unknown users, and without the right to write', async () => {
    const user = await app().make.user();
    const own = await follow(user, user);
    expect([own.status, own.body]).toEqual([400, { message: '400 Bad request - You cannot follow yourself' }]);
    const nobody = await follow(user, { id: 987_654_321 });
    expect([nobody.status, nobody.body]).toEqual([404, { message: '404 User Not Found' }]);
    expect((await app().anonymous.post(`/users/${user.id}/follow`)).status).toBe(401);
    expect((await app().as(app().root, ['read_user']).post(`/users/${user.id}/follow`)).status).toBe(403);
    expect(await countsOf(user, user)).toEqual({ followers: 0, following: 0, is_followed: false });
  });

  it('is refused for a private profile, but unfollowing it is not', async () => {
    const [fan, star] = [await app().make.user(), await app().make.user()];
    await follow(fan, star);
    const { db } = app().hub.services;
    await db.updateTable('users').set({ private_profile: true }).where('id', '=', star.id).execute();
    const late = await follow(await app().make.user(), star);
    expect([late.status, late.body]).toEqual([404, { message: '404 User Not Found' }]);
    expect((await unfollow(fan, star)).status).toBe(201);
    expect(await countsOf(star, app().root)).toMatchObject({ followers: 0 });
  });
});

describe('a list of follows', () => {
  it('shows followers and followed users, in pages', async () => {
    const star = await app().make.user();
    const fans = [await app().make.user(), await app().make.user(), await app().make.user()];
    for (const fan of fans) await follow(fan, star);
    const client = app().as(await app().make.user());
    const all = await client.get(`/users/${star.id}/followers`);
    expect(all.status).toBe(200);
    const [a, b, c] = fans;
    expect(all.body.map(({ id }: TestUser) => id)).toEqual([c?.id, b?.id, a?.id]);
    expect(Object.keys(all.body[0]).sort()).toEqual([
      'avatar_url',
      'id',
      'locked',
      'name',
      'state',
      'username',
      'web_url',
    ]);
    const second = await client.get(`/users/${star.id}/followers?per_page=2&page=2`);
    expect(second.body.map(({ id }: TestUser) => id)).toEqual([a?.id]);
    expect(second.headers.get('x-total')).toBe('3');
    const following = await client.get(`/users/${a?.id}/following`);
    expect(following.body.map(({ id }: TestUser) => id)).toEqual([star.id]);
    expect((await client.get(`/users/${star.id}/following`)).body).toEqual([]);
    expect((await client.get('/users/987654321/followers')).status).toBe(404);
    expect((await app().anonymous.get(`/users/${star.id}/followers`)).status).toBe(401);
    expect((await app().as(star, ['read_user']).get(`/users/${star.id}/followers`)).status).toBe(200);
  });

  it('is visible only to its user and administrators if the profile is private', async () => {
    const star = await app().make.user();
    const fan = await app().make.user();
    await follow(fan, star);
    const { db } = app().hub.services;
    await db.updateTable('users').set({ private_profile: true }).where('id', '=', star.id).execute();
    const query = `query($id: UserID) { user(id: $id) { followersCount followers { count nodes { username } } } }`;
    const variables = { id: `gid://gitlab/User/${star.id}` };
    for (const user of [star, app().root]) {
      expect((await app().as(user).get(`/users/${star.id}/followers`)).body).toHaveLength(1);
      expect((await app().as(user).graphql(query, variables)).data.user).toEqual({
        followersCount: 1,
        followers: { count: 1, nodes: [{ username: fan.username }] },
      });
    }
    for (const side of ['followers', 'following']) {
      const { status, body } = await app().as(fan).get(`/users/${star.id}/${side}`);
      expect([status, body]).toEqual([404, { message: '404 User Not Found' }]);
    }
    expect((await app().as(fan).graphql(query, variables)).data.user).toEqual({
      followersCount: null,
      followers: null,
    });
  });
});
