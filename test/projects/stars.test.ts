import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

const app = useApp();

describe('a star', () => {
  it('is set and removed once, and counted', async () => {
    const [owner, user] = [await app().make.user(), await app().make.user()];
    const project = await app().make.project({ visibility: 'public' }, owner);
    await app().settle();
    const before = (await app().as(owner).get(`/projects/${project.id}`)).body;
    const client = app().as(user);
    const star = await client.post(`/projects/${project.id}/star`);
    expect([star.status, star.body]).toMatchObject([201, { id: project.id, star_count: 1 }]);
    expect(await client.post(`/projects/${project.id}/star`)).toMatchObject({ status: 304, body: '' });
    expect((await app().as(owner).post(`/projects/${project.id}/star`)).body.star_count).toBe(2);
    const unstar = await client.post(`/projects/${project.id}/unstar`);
    expect([unstar.status, unstar.body]).toMatchObject([201, { star_count: 1 }]);
    expect(await client.post(`/projects/${project.id}/unstar`)).toMatchObject({ status: 304, body: '' });
    expect((await app().anonymous.post(`/projects/${project.id}/star`)).status).toBe(401);
    // Stars do not change the record and are not activity in the project.
    await app().settle();
    const { updated_at, last_activity_at, star_count } = (await app().as(owner).get(`/projects/${project.id}`)).body;
    expect({ updated_at, last_activity_at, star_count }).toEqual({
      updated_at: before.updated_at,
      last_activity_at: before.last_activity_at,
      star_count: 1,
    });
  });

  it('cannot be set by callers who cannot see the project', async () => {
    const project = await app().make.project({}, await app().make.user());
    const stranger = app().as(await app().make.user());
    for (const verb of ['star', 'unstar']) {
      expect((await stranger.post(`/projects/${project.id}/${verb}`)).status).toBe(404);
    }
    expect((await stranger.get(`/projects/${project.id}/starrers`)).status).toBe(404);
    expect((await app().anonymous.get(`/projects/${project.id}/starrers`)).status).toBe(404);
  });

  it('is listed with its user, the latest first, without private profiles', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'public' }, owner);
    const [first, second, closed, blocked] = [
      await app().make.user({ name: 'Una Starrer' }),
      await app().make.user(),
      await app().make.user({ private_profile: true }),
      await app().make.user(),
    ];
    for (const user of [first, second, closed, blocked]) {
      expect((await app().as(user).post(`/projects/${project.id}/star`)).status).toBe(201);
    }
    const { db } = app().hub.services;
    await db.updateTable('users').set({ state: 'blocked' }).where('id', '=', blocked.id).execute();
    await sql`update project_stars set created_at = '2020-01-01' where user_id = ${first.id}`.execute(db);
    const path = `/projects/${project.id}/starrers`;
    const answer = await app().anonymous.get(path);
    expect(answer.body).toEqual([
      { starred_since: expect.any(String), user: expect.objectContaining({ id: second.id }) },
      {
        starred_since: '2020-01-01T00:00:00.000Z',
        user: {
          id: first.id,
          username: first.username,
          name: 'Una Starrer',
          state: 'active',
          locked: false,
          avatar_url: null,
          web_url: expect.any(String),
        },
      },
    ]);
    expect(answer.headers.get('x-total')).toBe('2');
    const who = async (client: Client, query = '') =>
      (await client.get(`${path}${query}`)).body.map((each: { user: { id: number } }) => each.user.id);
    expect(await who(app().as(owner))).toEqual([second.id, first.id]);
    expect(await who(app().as(closed))).toEqual([closed.id, second.id, first.id]);
    expect(await who(app().as(app().root))).toEqual([closed.id, second.id, first.id]);
    expect(await who(app().anonymous, '?search=una')).toEqual([first.id]);
    expect(await who(app().anonymous, `?search=${closed.username}`)).toEqual([]);
    expect(await who(app().anonymous, '?per_page=1&page=2')).toEqual([first.id]);
  });

  it('is listed with its project, if the caller may see the project', async () => {
    const [owner, user] = [await app().make.user(), await app().make.user()];
    const [open, shut] = [
      await app().make.project({ visibility: 'public', name: 'Open star' }, owner),
      await app().make.project({}, owner),
    ];
    await app().make.projectMember(shut, user, 10);
    for (const { id } of [open, shut]) await app().as(user).post(`/projects/${id}/star`);
    const list = async (client: Client, query = '') =>
      (await client.get(`/users/${user.id}/starred_projects${query}`)).body.map((each: { id: number }) => each.id);
    expect(await list(app().as(user))).toEqual([shut.id, open.id]);
    expect(await list(app().as(user), '?order_by=name&sort=asc&search=star')).toEqual([open.id]);
    expect(await list(app().anonymous)).toEqual([open.id]);
    expect(await list(app().as(await app().make.user()))).toEqual([open.id]);
    expect((await app().anonymous.get('/users/999999999/starred_projects')).status).toBe(404);
  });
});
